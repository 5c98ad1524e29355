#include "base/error.h"

namespace sculler {

std::string Error::text() const {
  std::string out;
  if (!file.empty()) out += file + ": ";
  if (!key.empty()) out += key + ": ";
  out += message;
  if (!cure.empty()) out += " (" + cure + ")";
  return out;
}

}  // namespace sculler
