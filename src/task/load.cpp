#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/sha256.h"
#include "base/strings.h"
#include "sculler/candidate.h"
#include "task/task.h"

namespace sculler::task {
namespace {

constexpr int64_t kMaxRanks = 64;

// Runs `body` with the value of a result, or returns its error from the enclosing function.
#define TAKE(variable, expression)                                \
  auto variable##_result = (expression);                          \
  if (!variable##_result) return fail(variable##_result.error()); \
  auto variable = std::move(*variable##_result)

Result<Task::Placed> placed(const TomlReader& table, std::string_view key) {
  const TomlNode* node = table.node().find(key);
  if (node == nullptr)
    return fail(table.error(key, "is missing", fmt::format("add {} with a formula", key)));
  Task::Placed out;
  const Error place = table.error(key, {});
  out.file = place.file;
  out.key = place.key;
  if (node->kind == TomlNode::Kind::kInteger) {
    out.formula = Formula::constant(node->integer);
    return out;
  }
  std::string text;
  if (node->kind == TomlNode::Kind::kFloat) text = fmt::format("{}", node->number);
  else if (node->kind == TomlNode::Kind::kString) text = node->string;
  else return fail(table.error(key, "a number or a formula in quotes is expected"));
  auto formula = Formula::parse(text);
  if (!formula) return fail(table.error(key, formula.error().message, "correct the formula"));
  out.formula = std::move(*formula);
  return out;
}

Result<Task::Placed> placed_or(const TomlReader& table, std::string_view key, int64_t fallback) {
  if (table.has(key)) return placed(table, key);
  Task::Placed out;
  const Error place = table.error({}, {});
  out.file = place.file;
  out.key = place.key;
  out.formula = Formula::constant(fallback);
  return out;
}

Result<std::string> word_of(const TomlReader& table, std::string_view key,
                            const std::vector<std::string>& words) {
  TAKE(value, table.string(key));
  if (std::find(words.begin(), words.end(), value) != words.end()) return value;
  const auto like = nearest(value, words);
  return fail(table.error(key, fmt::format("\"{}\" is unknown", value),
                          like ? fmt::format("did you mean {}?", *like)
                               : fmt::format("use one of {}", join(words, ", "))));
}

Status load_head(const TomlReader& root, Task& task) {
  TAKE(version, root.integer("version"));
  if (version != 1) {
    Error error = root.error("version", fmt::format("format {} is not known here", version),
                             "use a task of format 1");
    error.code = ErrorCode::kVersion;
    return fail(std::move(error));
  }
  TAKE(name, root.string("name"));
  const bool good =
      !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-';
      });
  if (!good) return fail(root.error("name", "must be 1 to 64 letters, digits, '_' or '-'"));
  task.name = name;
  TAKE(kind, word_of(root, "kind", {"workload", "kernel"}));
  task.kind = kind == "workload" ? Kind::kWorkload : Kind::kKernel;
  TAKE(summary, root.string_or("summary", ""));
  task.summary = summary;
  if (root.has("targets")) {
    TAKE(targets, root.strings("targets"));
    for (const auto& target : targets) {
      if (target != "cuda" && target != "emu" && target != "cpu" && target != "external") {
        return fail(root.error("targets", fmt::format("\"{}\" is no target", target),
                               "use cuda, emu, cpu or external"));
      }
    }
    if (targets.empty()) return fail(root.error("targets", "is empty", "name cuda, emu or cpu"));
    task.targets = targets;
  } else {
    task.targets = {"cuda", "emu"};
  }
  TAKE(dims, root.strings("dims"));
  if (dims.empty() || dims.size() > SCULLER_MAX_DIMS) {
    return fail(
        root.error("dims", fmt::format("1 to {} dimensions are possible", SCULLER_MAX_DIMS)));
  }
  for (const auto& dim : dims) {
    auto formula = Formula::parse(dim);
    if (!formula || formula->names() != std::vector<std::string>{dim} || dim == "R") {
      return fail(root.error("dims", fmt::format("\"{}\" is no name for a dimension", dim),
                             "use letters, digits and '_'; R is taken"));
    }
  }
  if (std::set<std::string>(dims.begin(), dims.end()).size() != dims.size())
    return fail(root.error("dims", "a name occurs twice"));
  task.dims = dims;
  if (root.has("ranks")) {
    TAKE(ranks, root.table("ranks"));
    if (auto ok = ranks.only({"default", "supported"}); !ok) return ok;
    TAKE(usual, ranks.integer("default", 1, kMaxRanks));
    TAKE(supported, ranks.integers("supported"));
    for (const int64_t r : supported) {
      if (r < 1 || r > kMaxRanks)
        return fail(ranks.error("supported", fmt::format("{} is outside 1..{}", r, kMaxRanks)));
      task.supported_ranks.push_back(static_cast<int>(r));
    }
    task.default_ranks = static_cast<int>(usual);
    if (std::count(task.supported_ranks.begin(), task.supported_ranks.end(), task.default_ranks) ==
        0) {
      return fail(ranks.error("default", fmt::format("{} is not among ranks.supported", usual)));
    }
  } else {
    if (task.kind == Kind::kWorkload)
      return fail(
          root.error("ranks", "is missing", "add ranks = { default = 2, supported = [2] }"));
    task.supported_ranks = {1};
  }
  if (task.kind == Kind::kKernel && task.supported_ranks != std::vector<int>{1}) {
    return fail(root.error("ranks", "a kernel has one rank"));
  }
  if (root.has("timeouts_s")) {
    TAKE(table, root.table("timeouts_s"));
    if (auto ok = table.only({"compile", "emulate", "run"}); !ok) return ok;
    for (const auto& [key, field] :
         {std::pair{"compile", &task.timeouts.compile_s},
          std::pair{"emulate", &task.timeouts.emulate_s}, std::pair{"run", &task.timeouts.run_s}}) {
      TAKE(seconds, table.number_or(key, *field));
      if (!(seconds > 0 && seconds <= 86400))
        return fail(table.error(key, "must be above 0 and at most 86400 seconds"));
      *field = seconds;
    }
  }
  if (root.has("sets")) {
    TAKE(sets, root.integer("sets", 1, 64));
    task.n_sets = static_cast<int>(sets);
  }
  TAKE(adapter, root.string_or("adapter", ""));
  task.adapter = adapter;
  if (root.has("families")) {
    TAKE(families, root.strings("families"));
    task.families = families;
  }
  return {};
}

Status load_buffers(const TomlReader& root, Task& task) {
  TAKE(tables, root.tables("buffer"));
  if (tables.empty() || tables.size() > 64)
    return fail(root.error("buffer", "1 to 64 buffers are possible"));
  std::set<std::string> names;
  bool any_output = false;
  for (const auto& table : tables) {
    if (auto ok = table.only(
            {"name", "role", "dtype", "elements", "row_elements", "content", "scale", "positive"});
        !ok)
      return ok;
    Task::BufferSpec spec;
    TAKE(name, table.string("name"));
    spec.name = name;
    if (!names.insert(name).second)
      return fail(table.error("name", fmt::format("\"{}\" occurs twice", name)));
    TAKE(role, word_of(table, "role", {"input", "output", "inout", "scratch"}));
    spec.role = role == "input"    ? Role::kInput
                : role == "output" ? Role::kOutput
                : role == "inout"  ? Role::kInOut
                                   : Role::kScratch;
    any_output = any_output || spec.role == Role::kOutput || spec.role == Role::kInOut;
    TAKE(dtype, word_of(table, "dtype", {"bf16", "f16", "f32", "i32"}));
    spec.dtype = dtype == "bf16"  ? Dtype::kBf16
                 : dtype == "f16" ? Dtype::kF16
                 : dtype == "f32" ? Dtype::kF32
                                  : Dtype::kI32;
    TAKE(elements, placed(table, "elements"));
    spec.elements = elements;
    spec.row_elements = elements;
    if (table.has("row_elements")) {
      TAKE(row, placed(table, "row_elements"));
      spec.row_elements = row;
    }
    if (table.has("content")) {
      TAKE(content, word_of(table, "content", {"per_rank", "replicated"}));
      spec.replicated = content == "replicated";
    }
    if (table.has("scale")) {
      TAKE(scale, table.number("scale"));
      spec.scale_milli = static_cast<int>(std::lround(std::clamp(scale, 0.0, 100.0) * 1000));
      if (spec.scale_milli < 1 || spec.scale_milli > 60000)
        return fail(table.error("scale", "must lie between 0.001 and 60"));
    }
    TAKE(positive, table.boolean_or("positive", false));
    spec.positive = positive;
    task.buffer_specs.push_back(std::move(spec));
  }
  if (!any_output)
    return fail(root.error("buffer", "no buffer is an output, so nothing could be checked",
                           "give one the role \"output\""));
  return {};
}

Status load_numbers(const TomlReader& root, Task& task) {
  TAKE(sizes, root.table("sizes"));
  for (const auto& [name, node] : sizes.node().table) {
    TAKE(size, sizes.table(name));
    if (auto ok = size.only(task.dims); !ok) return ok;
    std::vector<Task::Placed> values;
    for (const auto& dim : task.dims) {
      TAKE(value, placed(size, dim));
      values.push_back(std::move(value));
    }
    task.sizes.emplace_back(name, std::move(values));
  }
  if (task.sizes.empty()) return fail(root.error("sizes", "holds no size", "add [sizes.default]"));
  if (root.has("ranges")) {
    TAKE(ranges, root.table("ranges"));
    if (auto ok = ranges.only(task.dims); !ok) return ok;
    for (const auto& dim : task.dims) {
      TAKE(range, ranges.table(dim));
      if (auto ok = range.only({"min", "max", "step"}); !ok) return ok;
      TAKE(low, placed(range, "min"));
      TAKE(high, placed(range, "max"));
      TAKE(step, placed_or(range, "step", 1));
      task.ranges.push_back({std::move(low), std::move(high), std::move(step)});
    }
  }
  if (root.has("requires")) {
    TAKE(texts, root.strings("requires"));
    const Error place = root.error("requires", {});
    for (const auto& text : texts) {
      auto formula = Formula::parse(text);
      if (!formula)
        return fail(root.error("requires", formula.error().message, "correct the condition"));
      task.requirements.push_back({std::move(*formula), place.file, place.key});
    }
  }
  TAKE(work, root.table("work"));
  if (auto ok = work.only({"flops", "flops_vec", "hbm_bytes", "link_bytes", "latency_bound"}); !ok)
    return ok;
  TAKE(flops, placed_or(work, "flops", 0));
  TAKE(flops_vec, placed_or(work, "flops_vec", 0));
  TAKE(latency_bound, work.boolean_or("latency_bound", false));
  task.latency_bound = latency_bound;
  task.flops_vec = std::move(flops_vec);
  TAKE(hbm, placed(work, "hbm_bytes"));
  TAKE(link, placed_or(work, "link_bytes", 0));
  task.flops = std::move(flops);
  task.hbm_bytes = std::move(hbm);
  task.link_bytes = std::move(link);
  TAKE(tolerance, root.table("tolerance"));
  if (auto ok = tolerance.only({"relative_l2", "max_abs"}); !ok) return ok;
  TAKE(l2, placed(tolerance, "relative_l2"));
  TAKE(cap, placed(tolerance, "max_abs"));
  task.relative_l2 = std::move(l2);
  task.max_abs = std::move(cap);
  return {};
}

Status load_files(Files& files, const TomlReader& root, Task& task) {
  TAKE(table, root.table("files"));
  if (auto ok = table.only({"reference", "expected", "baselines", "seeds"}); !ok) return ok;
  const auto present = [&](std::string_view key, const std::string& path) -> Status {
    if (path.empty() || path.front() == '/' || path.find("..") != std::string::npos) {
      return fail(table.error(key, fmt::format("\"{}\" must lie below the task's folder", path)));
    }
    if (!files.exists(join_path(task.folder, path))) {
      return fail(table.error(key, fmt::format("{} does not exist", join_path(task.folder, path)),
                              "add the file or remove it from the list"));
    }
    return {};
  };
  TAKE(reference, table.string("reference"));
  if (auto ok = present("reference", reference); !ok) return ok;
  task.reference = reference;
  TAKE(expected, table.string_or("expected", ""));
  if (!expected.empty()) {
    if (auto ok = present("expected", expected); !ok) return ok;
  }
  task.expected = expected;
  for (const auto& [key, field] :
       {std::pair{"baselines", &task.baselines}, std::pair{"seeds", &task.seeds}}) {
    if (!table.has(key)) continue;
    TAKE(paths, table.strings(key));
    std::set<std::string> stems;
    for (const auto& path : paths) {
      if (auto ok = present(key, path); !ok) return ok;
      // One a language: a name is that of one program on each target.
      const std::string stem = (path.ends_with(".cu") ? "cu " : "") + Task::stem(path);
      if (!stems.insert(stem).second)
        return fail(table.error(key, fmt::format("two files are named {}", Task::stem(path))));
    }
    *field = paths;
  }
  if (task.baselines.empty())
    return fail(table.error("baselines", "at least one baseline is needed",
                            "add baselines = [\"baselines/…\"]"));
  Sha256 hash;
  TAKE(names, files.list(task.folder));
  for (const auto& name : names) {
    const std::string path = join_path(task.folder, name);
    if (files.is_folder(path) || name.ends_with(".md")) continue;
    TAKE(text, files.read(path));
    hash.field(name).field(text);
  }
  task.sha256 = hash.hex();
  return {};
}

// Every formula at every size and number of ranks, so that a broken one is found before a run and
// not in it.
Status try_everything(const Task& task, const TomlReader& root) {
  for (const int ranks : task.supported_ranks) {
    bool any = false;
    for (const auto& size : task.size_names()) {
      TAKE(problem, task.problem(size, ranks));
      if (!task.check(problem)) continue;  // a size that excludes some numbers of ranks is fine
      any = true;
      if (auto ok = task.buffers(problem); !ok) return fail(ok.error());
      if (auto ok = task.work(problem); !ok) return fail(ok.error());
      TAKE(tolerance, task.tolerance(problem));
      if (!(tolerance.relative_l2 > 0) || !(tolerance.max_abs > 0)) {
        return fail(root.error("tolerance", "must be above 0 at every size"));
      }
    }
    if (!any)
      return fail(root.error("sizes", fmt::format("no size meets `requires` on {} ranks", ranks)));
    if (!task.ranges.empty()) {
      TAKE(hidden, task.draw_hidden(1, 0, ranks));
      if (auto ok = task.buffers(hidden); !ok) return fail(ok.error());
    }
  }
  return {};
}

#undef TAKE

}  // namespace

Result<Task> load_task(Files& files, const std::string& folder) {
  Task task;
  task.folder = absolute_path(folder);
  const std::string path = join_path(task.folder, "task.toml");
  auto text = files.read(path);
  if (!text) return fail(text.error());
  auto tree = parse_toml(*text, path);
  if (!tree) return fail(tree.error());
  const TomlReader root(*tree, path);
  if (auto ok = root.only({"version", "name", "kind", "summary", "targets", "dims", "ranks",
                           "timeouts_s", "sets", "families", "requires", "precision", "buffer",
                           "sizes", "ranges", "work", "tolerance", "files", "adapter"});
      !ok) {
    return fail(ok.error());
  }
  if (auto ok = load_head(root, task); !ok) return fail(ok.error());
  auto precision = root.table("precision");
  if (!precision) return fail(precision.error());
  for (const auto& [key, field] : {std::pair{"input", &task.precision_input},
                                   std::pair{"accumulate", &task.precision_accumulate},
                                   std::pair{"output", &task.precision_output}}) {
    auto value = word_of(*precision, key, {"bf16", "f16", "f32", "f64", "i32"});
    if (!value) return fail(value.error());
    *field = *value;
  }
  task.precision_products = task.precision_input;
  if (precision->has("products")) {
    auto products =
        word_of(*precision, "products", {"f32", "split_tf32", "split_bf16", "split_f16"});
    if (!products) return fail(products.error());
    task.precision_products = *products;
  }
  if (auto ok = load_buffers(root, task); !ok) return fail(ok.error());
  if (auto ok = load_numbers(root, task); !ok) return fail(ok.error());
  if (auto ok = load_files(files, root, task); !ok) return fail(ok.error());
  if (auto ok = try_everything(task, root); !ok) return fail(ok.error());
  return task;
}

std::vector<TaskEntry> list_tasks(Files& files, const std::vector<std::string>& roots) {
  std::vector<TaskEntry> out;
  std::set<std::string> seen;
  for (const auto& root : roots) {
    for (const char* kind : {"workloads", "kernels"}) {
      const std::string group = join_path(root, kind);
      auto names = files.list(group);
      if (!names) continue;
      for (const auto& name : *names) {
        const std::string folder = join_path(group, name);
        if (!files.exists(join_path(folder, "task.toml")) || !seen.insert(name).second) continue;
        auto task = load_task(files, folder);
        out.push_back({name, folder, std::string(kind, std::string_view(kind).size() - 1),
                       task ? task->summary : task.error().text()});
      }
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

Result<std::string> find_task(Files& files, const std::vector<std::string>& roots,
                              std::string_view name) {
  if (name.find('/') != std::string_view::npos || files.exists(join_path(name, "task.toml"))) {
    const std::string folder = absolute_path(name);
    if (files.exists(join_path(folder, "task.toml"))) return folder;
    return fail(Error{ErrorCode::kUnknownTask,
                      "no task.toml there",
                      folder,
                      {},
                      "give a task's name or its folder"});
  }
  std::vector<std::string> known;
  for (const auto& root : roots) {
    for (const char* kind : {"workloads", "kernels"}) {
      const std::string group = join_path(root, kind);
      const std::string folder = join_path(group, name);
      if (files.exists(join_path(folder, "task.toml"))) return folder;
      if (auto names = files.list(group)) {
        for (const auto& other : *names) {
          if (files.exists(join_path(join_path(group, other), "task.toml"))) known.push_back(other);
        }
      }
    }
  }
  if (known.empty()) {
    return fail(ErrorCode::kUnknownTask,
                fmt::format("unknown task {}: no tasks found in {}", name, join(roots, ", ")),
                "set SCULLER_HOME to the folder that holds tasks/");
  }
  const auto like = nearest(name, known);
  return fail(
      ErrorCode::kUnknownTask, fmt::format("unknown task {}", name),
      like ? fmt::format("did you mean {}?", *like) : fmt::format("known: {}", join(known, ", ")));
}

}  // namespace sculler::task
