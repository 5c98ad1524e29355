#include "task/task.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "base/strings.h"

namespace sculler::task {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 40;

Error placed_error(const Task::Placed& placed, Error error) {
  error.file = placed.file;
  error.key = placed.key;
  return error;
}

Result<int64_t> integer(const Task::Placed& placed, const Variables& variables) {
  auto value = placed.formula.integer(variables);
  if (!value) return fail(placed_error(placed, value.error()));
  return value;
}

Result<double> real(const Task::Placed& placed, const Variables& variables) {
  auto value = placed.formula.real(variables);
  if (!value) return fail(placed_error(placed, value.error()));
  return value;
}

}  // namespace

std::string_view role_name(Role role) {
  static constexpr std::string_view kNames[] = {"input", "output", "inout", "scratch"};
  return kNames[static_cast<int>(role)];
}

std::string_view dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16: return "bf16";
    case Dtype::kF16: return "f16";
    case Dtype::kF32: return "f32";
    case Dtype::kI32: return "i32";
  }
  return "?";
}

int dtype_bytes(Dtype dtype) { return dtype == Dtype::kBf16 || dtype == Dtype::kF16 ? 2 : 4; }

std::vector<std::string> Task::size_names() const {
  std::vector<std::string> names;
  for (const auto& [size_name, values] : sizes) names.push_back(size_name);
  return names;
}

std::string Task::stem(std::string_view path) {
  const std::string base = file_name(path);
  return base.substr(0, base.rfind('.'));
}

bool Task::fits(std::string_view path, std::string_view target) {
  // An adapter's programs are of its own language.
  if (target == "external") return !path.ends_with(".cu") && !path.ends_with(".cpp");
  return path.ends_with(".cu") != (target == "cpu");
}

std::vector<std::string> Task::fitting(const std::vector<std::string>& paths,
                                       std::string_view target) {
  std::vector<std::string> out;
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(out),
               [&](const std::string& path) { return fits(path, target); });
  return out;
}

std::string Task::baseline_path(std::string_view wanted, std::string_view target) const {
  for (const auto& path : fitting(baselines, target)) {
    if (stem(path) == wanted) return path;
  }
  return {};
}

Variables Task::variables(const Problem& problem) const {
  Variables out{{"R", problem.n_ranks}};
  for (std::size_t i = 0; i < dims.size() && i < problem.dims.size(); ++i)
    out[dims[i]] = problem.dims[i];
  return out;
}

Result<Problem> Task::problem(std::string_view size, int n_ranks) const {
  if (std::find(supported_ranks.begin(), supported_ranks.end(), n_ranks) == supported_ranks.end()) {
    std::vector<std::string> known;
    for (const int r : supported_ranks) known.push_back(std::to_string(r));
    return fail(Error{ErrorCode::kUsage, fmt::format("{} does not run on {} ranks", name, n_ranks),
                      join_path(folder, "task.toml"), "ranks.supported",
                      fmt::format("choose one of {}", join(known, ", "))});
  }
  for (const auto& [size_name, values] : sizes) {
    if (size_name != size) continue;
    Problem out{size_name, n_ranks, {}};
    Variables known{{"R", n_ranks}};
    // A size may use the dimensions before it.
    for (std::size_t i = 0; i < dims.size(); ++i) {
      auto value = integer(values[i], known);
      if (!value) return fail(value.error());
      if (*value <= 0 || *value > kMaxElements) {
        return fail(
            placed_error(values[i], {ErrorCode::kBadInput,
                                     fmt::format("{} = {} is out of range", dims[i], *value),
                                     {},
                                     {},
                                     {}}));
      }
      known[dims[i]] = *value;
      out.dims.push_back(*value);
    }
    return out;
  }
  const auto names = size_names();
  const auto like = nearest(size, names);
  return fail(Error{ErrorCode::kUsage, fmt::format("{} has no size {}", name, size),
                    join_path(folder, "task.toml"), "sizes",
                    like ? fmt::format("did you mean {}?", *like)
                         : fmt::format("choose one of {}", join(names, ", "))});
}

Result<Problem> Task::draw_hidden(uint64_t seed, int index, int n_ranks) const {
  if (ranges.empty()) {
    return fail(Error{ErrorCode::kUnsupported,
                      "has no [ranges] to draw hidden sizes from",
                      join_path(folder, "task.toml"),
                      "ranges",
                      {}});
  }
  Random random(seed, fmt::format("{}/{}/{}", name, index, n_ranks));
  constexpr int kTries = 1000;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Problem out{fmt::format("hidden-{}", index), n_ranks, {}};
    Variables known{{"R", n_ranks}};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      auto low = integer(ranges[i].min, known), high = integer(ranges[i].max, known),
           step = integer(ranges[i].step, known);
      for (const auto* value : {&low, &high, &step}) {
        if (!*value) return fail(value->error());
      }
      if (*step <= 0 || *low <= 0 || *high < *low) {
        return fail(placed_error(
            ranges[i].min, {ErrorCode::kBadInput,
                            fmt::format("min {}, max {}, step {} is no range", *low, *high, *step),
                            {},
                            {},
                            {}}));
      }
      const auto count = static_cast<uint64_t>((*high - *low) / *step) + 1;
      const int64_t value = *low + *step * static_cast<int64_t>(random.below(count));
      known[dims[i]] = value;
      out.dims.push_back(value);
    }
    if (check(out)) return out;
  }
  return fail(
      Error{ErrorCode::kBadInput,
            fmt::format("{} draws from [ranges] met no size that `requires` allows", kTries),
            join_path(folder, "task.toml"), "ranges", "make steps that the conditions allow"});
}

Status Task::check(const Problem& problem) const {
  const Variables known = variables(problem);
  for (const auto& requirement : requirements) {
    auto value = real(requirement, known);
    if (!value) return fail(value.error());
    if (*value == 0) {
      return fail(placed_error(requirement, {ErrorCode::kUnsupported,
                                             fmt::format("size {} does not meet {}", problem.size,
                                                         requirement.formula.text()),
                                             {},
                                             {},
                                             {}}));
    }
  }
  return {};
}

Result<std::vector<Buffer>> Task::buffers(const Problem& problem) const {
  const Variables known = variables(problem);
  std::vector<Buffer> out;
  for (const auto& spec : buffer_specs) {
    Buffer buffer;
    buffer.name = spec.name;
    buffer.role = spec.role;
    buffer.dtype = spec.dtype;
    buffer.replicated = spec.replicated;
    buffer.positive = spec.positive;
    buffer.scale_milli = spec.scale_milli;
    auto elements = integer(spec.elements, known), row = integer(spec.row_elements, known);
    if (!elements) return fail(elements.error());
    if (!row) return fail(row.error());
    if (*elements <= 0 || *elements > kMaxElements) {
      return fail(placed_error(spec.elements,
                               {ErrorCode::kBadInput,
                                fmt::format("{} elements at size {}", *elements, problem.size),
                                {},
                                {},
                                {}}));
    }
    if (*row <= 0 || *elements % *row != 0) {
      return fail(placed_error(
          spec.row_elements,
          {ErrorCode::kBadInput,
           fmt::format("{} does not divide {} elements at size {}", *row, *elements, problem.size),
           {},
           {},
           {}}));
    }
    buffer.elements = *elements;
    buffer.row_elements = *row;
    buffer.bytes = *elements * dtype_bytes(spec.dtype);
    out.push_back(std::move(buffer));
  }
  return out;
}

Result<Work> Task::work(const Problem& problem) const {
  const Variables known = variables(problem);
  auto f = real(flops, known), h = real(hbm_bytes, known), l = real(link_bytes, known),
       v = real(flops_vec, known);
  for (const auto* value : {&f, &h, &l, &v}) {
    if (!*value) return fail(value->error());
  }
  return Work{*f, *h, *l, *v};
}

Result<Tolerance> Task::tolerance(const Problem& problem) const {
  const Variables known = variables(problem);
  auto l2 = real(relative_l2, known), cap = real(max_abs, known);
  if (!l2) return fail(l2.error());
  if (!cap) return fail(cap.error());
  return Tolerance{*l2, *cap};
}

}  // namespace sculler::task
