#include "analyze/names.h"

#include <algorithm>

namespace sculler::analyze {
namespace {

bool member(const TextModel& model, std::size_t i) {
  return i > 0 && (model.is(i - 1, ".") || model.is(i - 1, "->"));
}

std::string key_at(const TextModel& model, std::size_t i) {
  const std::string& name = model.code()[i].text;
  return member(model, i) ? "." + name : local_key(model.function_at(i), name);
}

// "=" that assigns: not one of ==, <=, >=, != and not a default argument of a capture.
bool assigns(const TextModel& model, std::size_t i) {
  if (!model.is(i, "=") || model.is(i + 1, "=")) return false;
  return i > 0 && !model.is(i - 1, "=") && !model.is(i - 1, "<") && !model.is(i - 1, ">") &&
         !model.is(i - 1, "!");
}

std::size_t value_end(const TextModel& model, std::size_t i) {
  const std::size_t n = model.code().size();
  while (i < n) {
    if (model.is(i, ";") || model.is(i, ",") || model.is(i, ")") || model.is(i, "}") ||
        model.is(i, "]"))
      return i;
    if ((model.is(i, "(") || model.is(i, "[") || model.is(i, "{")) && model.partner(i) < n)
      i = model.partner(i);
    ++i;
  }
  return n;
}

}  // namespace

std::string local_key(int function, std::string_view name) {
  return std::to_string(function) + "#" + std::string(name);
}

std::vector<Name> names_in(const TextModel& model, Range range) {
  std::vector<Name> out;
  int subscripts = 0;
  for (std::size_t i = range.first; i < range.last; ++i) {
    if (model.is(i, "[")) ++subscripts;
    if (model.is(i, "]")) --subscripts;
    if (!model.identifier(i) || model.is(i + 1, ".") || model.is(i + 1, "->") ||
        model.is(i + 1, "::"))
      continue;
    // a[i].b: the value is b's.
    if (model.is(i + 1, "[") && model.partner(i + 1) < range.last) {
      const std::size_t after = model.partner(i + 1) + 1;
      if (model.is(after, ".") || model.is(after, "->")) continue;
    }
    out.push_back({key_at(model, i), i, subscripts > 0});
  }
  return out;
}

std::vector<Assignment> assignments(const TextModel& model) {
  std::vector<Assignment> out;
  for (std::size_t i = 1; i < model.code().size(); ++i) {
    std::size_t name = i - 1;
    std::size_t from = i + 1;
    if (assigns(model, i)) {
      static constexpr std::string_view kCompound = "+-*/%&|^";
      if (model.code()[name].text.size() == 1 &&
          kCompound.find(model.code()[name].text[0]) != std::string_view::npos && name > 0)
        --name;
      while (model.is(name, "]") && model.partner(name) < name && model.partner(name) > 0)
        name = model.partner(name) - 1;
    } else if ((model.is(i, "{") || model.is(i, "(")) && model.identifier(name) && name > 0 &&
               model.function_at(i) >= 0 && !model.free_call(name) && !member(model, name) &&
               model.partner(i) < model.code().size()) {
      // T x(value) and T x{value}: a type stands before the name.
      if (!model.identifier(name - 1) && !model.is(name - 1, "*") && !model.is(name - 1, "&") &&
          !model.is(name - 1, ">"))
        continue;
      out.push_back({key_at(model, name), {i + 1, model.partner(i)}, name});
      continue;
    } else {
      continue;
    }
    if (!model.identifier(name)) continue;
    out.push_back({key_at(model, name), {from, value_end(model, from)}, name});
  }
  return out;
}

Names::Names(const TextModel& model) : model_(model), assignments_(assignments(model)) {
  Set seeds;
  for (std::size_t i = 0; i < model.code().size(); ++i) {
    if (!model.identifier(i)) continue;
    const std::string& word = model.code()[i].text;
    if ((word == "rank" || word == "lsa_rank") && member(model, i)) seeds["." + word] = "the rank";
    for (const std::string_view random : {"rand", "random_device", "clock", "time"}) {
      if (word == random && !member(model, i)) seeds[key_at(model, i)] = "chance";
    }
  }
  // What these calls fill.
  for (const Call& call : model.calls("ncclCommUserRank")) {
    if (call.arguments.size() < 2) continue;
    for (const Name& name : names_in(model, call.arguments[1])) seeds[name.key] = "the rank";
  }
  for (const std::string_view copy :
       {"cudaMemcpy", "cudaMemcpyAsync", "cudaMemcpy2D", "cudaMemcpy2DAsync"}) {
    for (const Call& call : model.calls(copy)) {
      if (call.arguments.empty()) continue;
      const bool to_host =
          std::any_of(call.arguments.begin(), call.arguments.end(), [&](Range argument) {
            const std::string text = model.joined(argument);
            return text == "cudaMemcpyDeviceToHost" || text == "cudaMemcpyDefault";
          });
      if (!to_host) continue;
      for (const Name& name : names_in(model, call.arguments[0])) {
        if (!name.in_subscript) seeds[name.key] = "data of the device";
      }
    }
  }
  anywhere_ = outside_ = seeds;
  spread(anywhere_, true);
  spread(outside_, false);
}

std::string Names::first_of(const Set& set, Range range, bool subscripts) const {
  for (const Name& name : names_in(model_, range)) {
    if (name.in_subscript && !subscripts) continue;
    const auto found = set.find(name.key);
    if (found != set.end()) return found->second;
  }
  return {};
}

void Names::spread(Set& set, bool subscripts) const {
  for (bool grown = true; grown;) {
    grown = false;
    for (const Assignment& one : assignments_) {
      if (set.count(one.key) > 0) continue;
      const std::string why = first_of(set, one.value, subscripts);
      if (why.empty()) continue;
      set.emplace(one.key, why);
      grown = true;
    }
  }
}

std::string Names::varies(Range range, bool subscripts) const {
  return first_of(subscripts ? anywhere_ : outside_, range, subscripts);
}

std::set<std::string> Names::sources(const std::vector<Range>& ranges) const {
  std::set<std::string> out;
  std::vector<std::string> open;
  const auto take = [&](Range range) {
    for (const Name& name : names_in(model_, range)) {
      if (!name.in_subscript && out.insert(name.key).second) open.push_back(name.key);
    }
  };
  for (const Range range : ranges) take(range);
  while (!open.empty()) {
    const std::string key = open.back();
    open.pop_back();
    for (const Assignment& one : assignments_) {
      if (one.key == key) take(one.value);
    }
    // A parameter's values are what its function's calls hand over.
    for (std::size_t f = 0; f < model_.functions().size(); ++f) {
      const Function& function = model_.functions()[f];
      for (std::size_t p = 0; p < function.parameters.size(); ++p) {
        const Range parameter = function.parameters[p];
        if (parameter.empty() || !model_.identifier(parameter.last - 1) ||
            local_key(static_cast<int>(f), model_.code()[parameter.last - 1].text) != key)
          continue;
        for (const Call& call : model_.calls(function.name)) {
          if (p < call.arguments.size()) take(call.arguments[p]);
        }
      }
    }
  }
  return out;
}

Range Names::only_value(const std::string& key) const {
  Range found;
  for (const Assignment& one : assignments_) {
    if (one.key != key) continue;
    if (!found.empty()) return {};
    found = one.value;
  }
  return found;
}

}  // namespace sculler::analyze
