// Which names of a program carry what: values that differ from rank to rank or come from device
// data, and buffers that are communicated. By names and assignments alone: an approximation that
// errs towards more.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyze/text_model.h"

namespace sculler::analyze {

// A name as it is used at a place: a member's name is one wherever it stands, any other name
// belongs to its function.
struct Name {
  std::string key;
  std::size_t token = 0;
  bool in_subscript = false;
  // Within an argument of a call that is no cast: a size_t of `f(rank)` need not be rank's.
};

// Names whose values an expression uses: of a.b->c[i] these are c and i.
[[nodiscard]] std::vector<Name> names_in(const TextModel& model, Range range);
// The key of a name declared or used in function `function`.
[[nodiscard]] std::string local_key(int function, std::string_view name);

struct Assignment {
  std::string key;  // what is set
  Range value;
  std::size_t at = 0;
};
// `x = value`, `T x = value`, `a->x = value`, `x += value`, and `auto x{value}` and `T x(value)`
// are found as well.
[[nodiscard]] std::vector<Assignment> assignments(const TextModel& model);

class Names {
 public:
  explicit Names(const TextModel& model);

  // Why the value of `range` may differ between ranks, "rank" or "data of the device"; empty where
  // nothing says so. Subscripts count only where asked: buffers.c[rank] is each rank's own copy of
  // one thing.
  [[nodiscard]] std::string varies(Range range, bool subscripts) const;
  // Names from which the values of these ranges may come, themselves included.
  [[nodiscard]] std::set<std::string> sources(const std::vector<Range>& ranges) const;
  // The only value ever given to this local name; empty where there is none or more than one.
  [[nodiscard]] Range only_value(const std::string& key) const;

 private:
  using Set = std::map<std::string, std::string>;  // key → why
  void spread(Set& set, bool subscripts) const;
  [[nodiscard]] std::string first_of(const Set& set, Range range, bool subscripts) const;

  const TextModel& model_;
  std::vector<Assignment> assignments_;
  Set anywhere_, outside_;  // subscripts counted, not counted
};

}  // namespace sculler::analyze
