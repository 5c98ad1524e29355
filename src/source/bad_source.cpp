#include "source/bad_source.h"

namespace sculler::source {

Error bad_source(std::string_view origin, int line, std::string message, std::string cure) {
  std::string place(origin);
  if (line > 0) place += ":" + std::to_string(line);
  return {ErrorCode::kBadSource, std::move(message), std::move(place), {}, std::move(cure)};
}

}  // namespace sculler::source
