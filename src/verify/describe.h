// What a comparison that does not pass says to a proposer.
#pragma once

#include <string>

#include "verify/job.h"

namespace sculler::verify {

// "row 3, column 7" of an element; a number of three digits.
[[nodiscard]] std::string position(const BufferSpec& buffer, int64_t element);
[[nodiscard]] std::string figure(double value);

struct Complaint {
  std::string message, advice;
};
// `where` begins the message.
[[nodiscard]] Complaint describe_incorrect(const BufferSpec& buffer, const Comparison& comparison,
                                           const Tolerance& tolerance, const std::string& where);

}  // namespace sculler::verify
