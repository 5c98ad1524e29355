// sculler calibrate: measures what a hardware profile calls measured rates, and writes them into a
// profile of the user's.
#include "cli/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "cli/ceilings.h"
#include "cli/machine.h"
#include "task/profile.h"
#include "task/task.h"

namespace sculler::cli {

std::vector<std::pair<std::string, double>> parse_rates(std::string_view text) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto line : split(text, '\n')) {
    const auto words = split(trim(line), ' ');
    if (words.size() != 2 || words[0].starts_with("#")) continue;
    const auto value = parse_double(words[1]);
    if (value && std::isfinite(*value) && *value > 0) out.emplace_back(words[0], *value);
  }
  return out;
}

Result<std::string> with_rates(std::string_view profile,
                               const std::vector<std::pair<std::string, double>>& rates,
                               std::string_view origin) {
  std::string out, section;
  std::map<std::string, double> left(rates.begin(), rates.end());
  for (const auto line : split(profile, '\n')) {
    const auto body = trim(line);
    if (body.starts_with("[")) section = std::string(body.substr(0, body.find(']') + 1));
    const auto equals = line.find('=');
    if (section == "[measured]" && !body.starts_with("#") && equals != std::string_view::npos) {
      const auto found = left.find(std::string(trim(line.substr(0, equals))));
      if (found != left.end()) {
        const auto comment = line.find('#');
        out += fmt::format("{} = {:g}{}\n", found->first, found->second,
                           comment == std::string_view::npos
                               ? std::string()
                               : "  " + std::string(line.substr(comment)));
        left.erase(found);
        continue;
      }
    }
    (out += line) += '\n';
  }
  if (!left.empty()) {
    return fail(Error{ErrorCode::kBadInput,
                      fmt::format("has no {} to replace", left.begin()->first), std::string(origin),
                      "measured", "add the key to [measured]"});
  }
  out.pop_back();  // split gave one line more than there are newlines
  return out;
}

Result<std::string> profile_folder(const App& app, const std::string& into) {
  if (!into.empty()) return absolute_path(into);
  if (app.config.empty())
    return fail(ErrorCode::kUsage, "there is no folder for the profile", "give one with --into");
  return join_path(app.config, "profiles");
}

Result<std::string> measure(App& app, const Home& home, const std::string& folder,
                            const Measuring& m) {
  const std::string source = join_path(join_path(home.root, "src/cli/calibrate"), m.source);
  if (!app.files.exists(source))
    return fail(Error{ErrorCode::kNotFound,
                      "the measuring program's source is missing",
                      source,
                      {},
                      "install all of sculler"});
  if (auto ok = app.files.mkdirs(folder); !ok) return fail(ok.error());
  const std::string program =
      join_path(folder, fmt::format(".{}-{}", task::Task::stem(m.source), ::getpid()));
  SpawnOptions compile;
  compile.argv = m.compiler;
  compile.argv.insert(compile.argv.end(), {source, "-o", program});
  compile.argv.insert(compile.argv.end(), m.libraries.begin(), m.libraries.end());
  compile.env = evaluator_environment();
  auto built = run_command(app.processes, compile, "", 300'000);
  if (!built) return fail(built.error());
  if (!built->status.ok())
    return fail(Error{ErrorCode::kChildFailed,
                      fmt::format("{}: {}: {}", file_name(m.compiler[0]), built->status.text(),
                                  printable(shorten(trim(built->err), 400))),
                      source,
                      {},
                      {}});
  SpawnOptions run;
  run.argv = {program};
  run.argv.insert(run.argv.end(), m.arguments.begin(), m.arguments.end());
  run.env = evaluator_environment();
  auto measured = run_command(app.processes, run, "", m.timeout_ms, 4 << 20);
  (void)app.files.remove_all(program);
  if (!measured) return fail(measured.error());
  if (!measured->status.ok())
    return fail(ErrorCode::kChildFailed, fmt::format("measuring: {}: {}", measured->status.text(),
                                                     printable(shorten(trim(measured->err), 400))));
  return std::move(measured->out);
}

namespace {

Status calibrate(App& app, const std::string& name, const std::string& into) {
  if (name == "cpu") return measure_ceilings(app, into, 0.2, 0);
  auto home = app.home();
  if (!home) return fail(home.error());
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  if (machine->gpus.empty()) {
    return fail(ErrorCode::kNoDevice,
                machine->gpu_problem.empty() ? "no GPU here to measure" : machine->gpu_problem,
                "run it on the machine whose profile is wanted");
  }
  if (machine->cuda_home.empty())
    return fail(ErrorCode::kNoCompiler, "nvcc is missing",
                "install CUDA 13, or set SCULLER_CUDA_HOME");
  auto target = profile_folder(app, into);
  if (!target) return fail(target.error());
  auto path = task::find_profile(app.files, home->profile_roots, name);
  if (!path) return fail(path.error());
  auto profile = app.files.read(*path);
  if (!profile) return fail(profile.error());
  Measuring m;
  m.source = "rates.cu";
  m.compiler = {join_path(machine->cuda_home, "bin/nvcc"), "-O3", "-std=c++17", "-arch=native"};
  m.libraries = {"-lcublas", "-Xlinker", "-rpath," + join_path(machine->cuda_home, "lib64")};
  auto measured = measure(app, *home, *target, m);
  if (!measured) return fail(measured.error());
  const auto rates = parse_rates(*measured);
  auto text = with_rates(*profile, rates, *path);
  if (!text) return fail(text.error());
  const std::string result = join_path(*target, file_name(*path));
  if (auto ok = app.files.write_atomic(result, *text); !ok) return ok;
  if (app.json) {
    app.print(dump_json({{"profile", result},
                         {"rates", std::map<std::string, double>(rates.begin(), rates.end())}}));
    return {};
  }
  for (const auto& [key, value] : rates) app.print(fmt::format("{:<16} {:g}", key, value));
  app.print(fmt::format("written to {}", result));
  return {};
}

}  // namespace

void add_calibrate(CLI::App& cli, App& app, Action& action) {
  auto name = std::make_shared<std::string>("h200x2"), into = std::make_shared<std::string>();
  auto* command =
      cli.add_subcommand("calibrate", "measure this machine's rates for its hardware profile");
  command->add_option("profile", *name,
                      "profile whose [measured] rates are replaced (default: h200x2); cpu: this "
                      "machine's cores, as bench ceilings does");
  command->add_option(
      "--into", *into,
      "folder for the new profile (default: the user's, which comes before the shipped ones)");
  command->callback([&action, &app, name, into] {
    action = [&app, name, into] { return calibrate(app, *name, *into); };
  });
}

}  // namespace sculler::cli
