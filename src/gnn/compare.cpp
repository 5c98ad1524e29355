// sculler-gnn compare: trainings with every policy, buffer size and seed, side by side.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"
#include "base/strings.h"
#include "gnn/app.h"
#include "gnn/comparison.h"
#include "gnn/parts.h"
#include "gnn/trainer_program.h"
#include "steer/policy.h"

namespace sculler::gnn {

namespace {

struct Options {
  std::string parts, out, launcher = "mpirun --oversubscribe -n {ranks}";
  std::vector<std::string> policies, buffers{"5%", "25%"}, more;
  std::vector<uint64_t> seeds{1, 2, 3};
  uint64_t epochs = 3;
  double limit_s = 3600;
};

// Every policy; those that wait for decisions replace at intervals, as the published rule does.
constexpr const char* kAll[] = {"none",     "degree", "vip",   "massivegnn", "rudder:1",
                                "rudder:8", "lru",    "lfu",   "clock",      "sieve",
                                "s3fifo",   "free",   "known", "belady"};

struct Run {
  std::string policy, buffer;
  uint64_t seed;
};

// Seeds outermost, so that what changes on the machine falls on all policies alike.
std::vector<Run> runs_of(const Options& options) {
  std::vector<Run> runs;
  for (const uint64_t seed : options.seeds)
    for (const auto& policy : options.policies)
      for (const auto& buffer : options.buffers) {
        if (policy == "none" && &buffer != &options.buffers.front()) continue;
        runs.push_back({policy, policy == "none" ? "0" : buffer, seed});
      }
  return runs;
}

std::vector<std::string> command_of(const Options& options, const PartBook& book, const Run& run,
                                    const std::string& trainer) {
  std::vector<std::string> command;
  for (const auto& word : split_words(options.launcher).value_or(std::vector<std::string>{}))
    command.push_back(word == "{ranks}" ? std::to_string(book.parts()) : word);
  for (const auto& word :
       {trainer, book.path, std::string("--json"), std::string("--policy"), run.policy,
        std::string("--buffer"), run.buffer, std::string("--seed"), std::to_string(run.seed),
        std::string("--epochs"), std::to_string(options.epochs)})
    command.push_back(word);
  command.insert(command.end(), options.more.begin(), options.more.end());
  return command;
}

// What MPI needs of this process's environment; as root Open MPI wants to be told.
std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> env;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry = *e;
    const auto equal = entry.find('=');
    if (equal != std::string_view::npos)
      env.emplace_back(entry.substr(0, equal), entry.substr(equal + 1));
  }
  const std::pair<const char*, const char*> ours[] = {{"OPENBLAS_NUM_THREADS", "1"},
                                                      {"OMP_NUM_THREADS", "1"},
                                                      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  for (const auto& [name, value] : ours)
    if (std::string_view(name).starts_with("OMP_") || std::string_view(name).starts_with("OPENB") ||
        ::geteuid() == 0)
      env.emplace_back(name, value);
  return env;
}

Result<TrainingRow> run_one(const Options& options, const std::vector<std::string>& command,
                            uint64_t seed) {
  SpawnOptions spawn;
  spawn.argv = command;
  spawn.env = environment();
  auto ran = run_command(real_processes(), spawn, "", static_cast<int64_t>(options.limit_s * 1e3));
  if (!ran) return fail(ran.error());
  if (!ran->status.ok()) {
    const auto tail = [](std::string_view text) {
      return std::string(text.substr(text.size() - std::min<size_t>(text.size(), 600)));
    };
    return fail({ErrorCode::kChildFailed,
                 ran->status.text() + ": " + tail(trim(ran->err + ran->out)),
                 join(command, " "),
                 {},
                 "Run it alone to see why; what is done is kept."});
  }
  auto row = training_row(ran->out);
  if (!row) return fail(row.error());
  row->seed = seed;
  return row;
}

// Rows of a comparison that was interrupted, by the command that made them.
Result<std::map<std::string, TrainingRow>> kept(const std::string& path) {
  std::map<std::string, TrainingRow> rows;
  if (!real_files().exists(path)) return rows;
  auto text = real_files().read(path);
  if (!text) return fail(text.error());
  int number = 0;
  for (const auto line : split(*text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const std::string origin = path + ":" + std::to_string(number);
    auto json = parse_json(line, origin);
    if (!json) return fail(json.error());
    auto row = training_row_of(*json, origin);
    if (!row) return fail(row.error());
    rows[string_or(*json, "command", "")] = *row;
  }
  return rows;
}

Status run(const Options& options, App& app) {
  auto book = read_book(options.parts);
  if (!book) return fail(book.error());
  auto trainer = trainer_program();
  if (!trainer) return fail(trainer.error());
  for (const auto& policy : options.policies)
    if (auto made = steer::make_policy(policy, 1, {}); !made) return fail(made.error());
  if (auto ok = real_files().mkdirs(options.out); !ok) return ok;
  const std::string path = join_path(options.out, "compare.jsonl");
  auto old = kept(path);
  if (!old) return fail(old.error());
  std::vector<TrainingRow> rows;
  const auto runs = runs_of(options);
  for (const auto& one : runs) {
    const auto command = command_of(options, *book, one, *trainer);
    // The program's path is no part of what was measured.
    std::string key = join(command, " ");
    key.replace(key.find(*trainer), trainer->size(), "train");
    if (const auto there = old->find(key); there != old->end()) {
      rows.push_back(there->second);
      continue;
    }
    auto row = run_one(options, command, one.seed);
    if (!row) return fail(row.error());
    auto json = json_of(*row);
    json["graph"] = book->name;
    json["command"] = key;
    if (auto ok = real_files().append(path, dump_json(json) + "\n"); !ok) return ok;
    rows.push_back(*row);
    if (!app.json)
      std::fputs(
          fmt::format("{}/{}  {} {} seed {}: {} rows, {:.2f} s an epoch\n", rows.size(),
                      runs.size(), one.policy, one.buffer, one.seed, row->fetched, row->epoch_s)
              .c_str(),
          app.err);
  }
  const auto all = compared(rows);
  const std::string table = comparison_table(all);
  if (auto ok = real_files().write_atomic(join_path(options.out, "compare.txt"), table); !ok)
    return ok;
  if (auto ok = real_files().write_atomic(
          join_path(options.out, "compare.svg"),
          comparison_svg(all, fmt::format("{}: {} ranks, {} epochs, {} seeds", book->name,
                                          book->parts(), options.epochs, options.seeds.size())));
      !ok)
    return ok;
  const auto bad = unequal(rows);
  if (app.json) {
    nlohmann::json report{
        {"graph", book->name}, {"rows", nlohmann::json::array()}, {"losses_equal", bad.empty()}};
    for (const auto& row : rows) report["rows"].push_back(json_of(row));
    app.print(dump_json(report));
  } else {
    app.print(
        fmt::format("{}: {} nodes, {} edges, {} ranks, {} epochs\n{}", book->name, book->nodes(),
                    book->edge_begin.back() / 2, book->parts(), options.epochs, table) +
        fmt::format(
            "losses of {} trainings: {}\n{}: compare.jsonl, compare.txt, compare.svg", rows.size(),
            bad.empty() ? "the same bits for every policy and size" : "NOT the same", options.out));
  }
  if (!bad.empty())
    return fail({ErrorCode::kInternal,
                 "policies change the losses with seed " + std::to_string(bad.front()),
                 path,
                 {},
                 "This is a defect: please report it with compare.jsonl."});
  return {};
}

}  // namespace

void add_compare(CLI::App& cli, App& app, Action& action) {
  auto* command = cli.add_subcommand(
      "compare", "trains with every policy, buffer size and seed: a table and a picture");
  auto options = std::make_shared<Options>();
  options->policies.assign(std::begin(kAll), std::end(kAll));
  command->add_option("parts", options->parts, "folder of sculler-gnn partition")->required();
  command
      ->add_option("--out", options->out,
                   "folder of compare.jsonl, which is gone on with, compare.txt, compare.svg")
      ->required();
  command->add_option("--policies", options->policies, "separated by commas; all by default")
      ->delimiter(',');
  command->add_option("--buffer", options->buffers, "shares of the halo or rows (5%,25%)")
      ->delimiter(',');
  command->add_option("--seeds", options->seeds, "(1,2,3)")->delimiter(',');
  command->add_option("--epochs", options->epochs, "(3)")->check(CLI::Range(1, 1000000));
  command->add_option("--limit", options->limit_s, "seconds for one training (3600)")
      ->check(CLI::Range(1.0, 1e7));
  command->add_option("--launcher", options->launcher,
                      "starts the ranks (mpirun --oversubscribe -n {ranks})");
  command
      ->add_option("--train", options->more,
                   "further options of train, in one word: --train=\"--batch 512 --no-test\"")
      ->expected(1);
  command->callback([options, &app, &action] {
    std::vector<std::string> words;
    for (const auto& text : options->more)
      for (auto& word : split_words(text).value_or(std::vector<std::string>{text}))
        words.push_back(std::move(word));
    options->more = std::move(words);
    action = [options, &app] { return run(*options, app); };
  });
}

}  // namespace sculler::gnn
