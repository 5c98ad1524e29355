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

std::unique_ptr<Observer> make_checker(CheckerConfig config = {});

}  // namespace sculler::emu
