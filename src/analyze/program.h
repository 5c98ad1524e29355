// A host program as the lowering sees it: its collectives, groups and allocations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyze/lowered_text.h"
#include "analyze/names.h"
#include "analyze/text_model.h"
#include "base/error.h"

namespace sculler::analyze {

// Where a collective's parameters stand; -1: it has none.
struct Signature {
  const char* name;
  Collective kind;
  int n_arguments;
  int send, receive, count, type, operation, root, comm, stream;
  const char* replacement;
};
[[nodiscard]] const Signature* signature_of(std::string_view name);

struct Site {
  const Signature* signature = nullptr;
  Call call;
  int group = -1;               // index of the outermost group around it
  std::string type, operation;  // C++ names, reductions only
  [[nodiscard]] bool point_to_point() const { return signature->kind == Collective::kExchange; }
  [[nodiscard]] Range argument(int index) const {
    return index < 0 ? Range{} : call.arguments[static_cast<std::size_t>(index)];
  }
};

struct Group {
  Call start, end;
  int outer = -1;  // the outermost group around it, itself where it is outermost
  bool communicates = false;
  bool exchanges = false;
};

struct Program {
  explicit Program(std::string_view text, std::string_view origin_)
      : model(text), names(model), origin(origin_) {}

  TextModel model;
  Names names;
  std::string origin;
  std::vector<Site> sites;
  std::vector<Group> groups;
  std::vector<Call> mallocs,
      frees;  // mallocs: of communication buffers; frees: all, where there are such
  std::vector<Call> registrations;  // ncclCommWindowRegister
  bool several_streams = false;

  [[nodiscard]] tl::unexpected<Error> refuse(std::size_t token, std::string why,
                                             std::string cure) const;
};

// Fills sites, groups, mallocs and frees. Refuses what cannot be told from the text.
[[nodiscard]] Status read_program(Program& program);
// The rules that hold for the whole: who takes part, streams, buffers.
[[nodiscard]] Status check_program(const Program& program);
// The text of an expression behind casts and local names with one value.
[[nodiscard]] std::string resolved(const Program& program, Range range);

}  // namespace sculler::analyze
