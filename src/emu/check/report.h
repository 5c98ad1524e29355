// Findings as sentences: who touches what where, against whom, what is missing, and what to do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "emu/check/observer.h"
#include "emu/vm/engine.h"

namespace sculler::emu {

// How a place in code and an address are named; Engine::locate and Memory::describe in the VM.
using LocateCode = std::function<Location(CodeRef)>;
using DescribeAddress = std::function<std::string(Address)>;

struct SourcePlace {
  std::string file;  // base name; "PTX of <function>" where there is no line information; of a call
                     // in host code "candidate.so+0x1a2b", which the evaluator resolves
  uint32_t line = 0;    // 1-based; 0: there is none beside `file`
  std::string inner{};  // in a library's kernel, the place in the library: "barrier.h:424"
  [[nodiscard]] bool known() const { return !file.empty(); }
  [[nodiscard]] std::string text() const;  // "ring.cu:84"
  [[nodiscard]] std::string full() const;  // "gemm.hpp:84 (barrier.h:424)"
};
SourcePlace place_of(CodeRef code, const LocateCode& locate);

// "race", "relaxed-order", "uninitialised", "bounds", "wrong-rank", "use-after-free", "misaligned",
// "misuse"
const char* name_of(Finding::Kind kind);

struct ReportedFinding {
  std::string kind;
  std::string text;    // one sentence
  std::string advice;  // one imperative sentence
  SourcePlace now, before;
  int rank = -1, other_rank = -1;
  std::string place;
  uint64_t count = 1;
};
ReportedFinding report(const Finding& finding, const LocateCode& locate);
std::vector<ReportedFinding> report(const std::vector<Finding>& findings, const LocateCode& locate);

}  // namespace sculler::emu
