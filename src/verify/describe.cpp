#include "verify/describe.h"

#include <algorithm>
#include <cstdio>

namespace sculler::verify {

std::string position(const BufferSpec& b, int64_t element) {
  const auto e = static_cast<uint64_t>(std::max<int64_t>(element, 0));
  return "row " + std::to_string(e / b.row_elements) + ", column " +
         std::to_string(e % b.row_elements);
}

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

Complaint describe_incorrect(const BufferSpec& buffer, const Comparison& c,
                             const Tolerance& tolerance, const std::string& where) {
  const std::string of = " of " + std::to_string(buffer.elements) + " elements of " + buffer.name;
  if (c.unwritten != 0) {
    return {where + std::to_string(c.unwritten) + of + " were never written, first " +
                position(buffer, c.first_unwritten),
            "write every element of every output in every run; wait for what peers write"};
  }
  if (c.bad != 0) {
    return {where + std::to_string(c.bad) + of + " are wrong, first " +
                position(buffer, c.first_bad) + ", largest error " + figure(c.max_abs) +
                " (allowed " + figure(c.cap) + ")",
            "compare the first wrong position with the tile and rank that computes it"};
  }
  return {where + buffer.name + " has relative L2 error " + figure(c.relative_l2) + " (allowed " +
              figure(tolerance.relative_l2) + ")",
          "accumulate in the precision that the task states"};
}

}  // namespace sculler::verify
