// The observer that judges: happens-before races by the PTX memory model, across ranks and within
// blocks, exact to the byte, and reads of memory that nobody wrote.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "emu/check/observer.h"

namespace sculler::emu {

struct CheckerConfig {
  bool races = true;
  bool init = true;           // uninitialised reads
  size_t max_findings = 256;  // distinct pairs of places; what is beyond is dropped
  size_t collect_records =
      size_t{8} << 20;  // new records between two collections of the checker's own garbage
  // "set 2 buffer C of rank 1 + 4096"; without it allocations are numbered.
  std::function<std::string(Address)> describe;
};

// What a checker also remembers; asked only when something is wrong already.
class WriteHistory {
 public:
  virtual ~WriteHistory() = default;
  // Who wrote the byte at `address` last since it was allocated or reset; false where nobody did,
  // or where races are not followed.
  virtual bool last_writer(Address address, Finding::Side* writer) const = 0;
};

// A WriteHistory too.
std::unique_ptr<Observer> make_checker(CheckerConfig config = {});

}  // namespace sculler::emu
