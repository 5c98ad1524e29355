// sculler bench ceilings: this machine's measured rates, which % of peak is counted against.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "cli/calibrate.h"
#include "cli/ceilings.h"
#include "cli/machine.h"

namespace sculler::cli {
namespace {

// [measured]'s keys by what the program calls the rate.
struct Rate {
  std::string_view name, key, unit;
};
constexpr Rate kRates[] = {{"memory", "memory_gbs", "GB/s"},
                           {"vector", "vector_gflops", "GFLOP/s"},
                           {"product", "product_gflops", "GFLOP/s"}};

std::string model_name(Files& files) {
  const auto text = files.read("/proc/cpuinfo", 1 << 20).value_or("");
  for (const auto line : split(text, '\n')) {
    if (line.starts_with("model name"))
      return std::string(trim(line.substr(std::min(line.size(), line.find(':') + 1))));
  }
  return "unknown cores";
}

bool plain_word(std::string_view text) {
  return !text.empty() && text.size() <= 40 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

void print_table(const App& app, const std::vector<CeilingFigure>& figures) {
  for (const Rate& rate : kRates) {
    const auto* best = best_ceiling(figures, rate.name);
    app.print(fmt::format("{:<8} {:>8.4g} {:<8} best of", rate.name, best->value, rate.unit));
    for (const auto& f : figures) {
      if (f.rate == rate.name)
        app.print(fmt::format("         {:>8.4g} {} × {}", f.value, f.implementation, f.threads));
    }
  }
  for (const auto& f : figures) {
    if (f.rate == "latency")
      app.print(fmt::format("latency  {:>8.4g} ns       {}", f.value, f.implementation));
  }
}

}  // namespace

std::vector<CeilingFigure> parse_ceilings(std::string_view text) {
  std::vector<CeilingFigure> out;
  for (const auto line : split(text, '\n')) {
    if (trim(line).empty() || out.size() >= 4096) continue;
    const auto object = parse_json(line, "ceilings");
    if (!object || !object->is_object()) continue;
    CeilingFigure f{string_or(*object, "rate", ""), string_or(*object, "implementation", ""),
                    static_cast<int>(int_or(*object, "threads", 0)),
                    number_or(*object, "value", 0)};
    if (plain_word(f.rate) && plain_word(f.implementation) && f.threads > 0 &&
        std::isfinite(f.value) && f.value > 0)
      out.push_back(std::move(f));
  }
  return out;
}

const CeilingFigure* best_ceiling(const std::vector<CeilingFigure>& figures,
                                  std::string_view rate) {
  const CeilingFigure* best = nullptr;
  for (const auto& f : figures) {
    if (f.rate != rate) continue;
    const bool better =
        best == nullptr || (rate == "latency" ? f.value < best->value : f.value > best->value);
    if (better) best = &f;
  }
  return best;
}

Result<std::string> ceilings_profile(const std::vector<CeilingFigure>& figures,
                                     std::string_view machine) {
  std::string name;  // within a TOML string
  for (const char c : machine)
    name += c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  std::string out = fmt::format(
      "# Measured by `sculler bench ceilings` on this machine; docs/kernels.md. What programs "
      "reach, not what a data\n# sheet says: the best of the implementations listed below.\n"
      "version = 1\nname = \"cpu\"\nsummary = \"{}\"\n\n[measured]\n",
      shorten(name, 120));
  for (const Rate& rate : kRates) {
    const auto* best = best_ceiling(figures, rate.name);
    if (best == nullptr) {
      return fail(Error{ErrorCode::kBadInput, fmt::format("no figure of the rate {}", rate.name),
                        "ceilings", std::string(rate.name), "measure again"});
    }
    out += fmt::format("{} = {:.6g}  # {}, {} × {}\n", rate.key, best->value, rate.unit,
                       best->implementation, best->threads);
  }
  // "memcpy_2": with two threads.
  std::map<std::string, std::map<std::string, double>> all;
  for (const auto& f : figures)
    all[f.rate][fmt::format("{}_{}", f.implementation, f.threads)] = f.value;
  for (const auto& [rate, values] : all) {
    out += fmt::format("\n[implementations.{}]\n", rate);
    for (const auto& [key, value] : values) out += fmt::format("{} = {:.6g}\n", key, value);
  }
  return out;
}

Status measure_ceilings(App& app, const std::string& into, double seconds, int threads) {
  auto home = app.home();
  if (!home) return fail(home.error());
  auto machine = ask_machine(app);
  if (!machine) return fail(machine.error());
  if (machine->gxx.empty())
    return fail(ErrorCode::kNoCompiler, "g++ is missing", "install g++ (apt-get install g++)");
  auto folder = profile_folder(app, into);
  if (!folder) return fail(folder.error());
  if (threads <= 0) threads = machine->cores;
  Measuring m;
  m.source = "ceilings.cpp";
  m.compiler = {machine->gxx,    "-std=c++20", "-O3",
                "-march=native", "-pthread",   "-I" + join_path(home->root, "include")};
  if (!machine->openblas.empty())
    m.libraries = {"-DSCULLER_OPENBLAS", "-I" + machine->openblas_include, "-L" + machine->openblas,
                   "-lopenblas", "-Wl,-rpath," + machine->openblas};
  m.arguments = {fmt::format("{:g}", seconds), std::to_string(threads)};
  m.timeout_ms = 1'200'000;
  auto measured = measure(app, *home, *folder, m);
  if (!measured) return fail(measured.error());
  const auto figures = parse_ceilings(*measured);
  auto text =
      ceilings_profile(figures, fmt::format("{}, {} threads", model_name(app.files), threads));
  if (!text) return fail(text.error());
  const std::string path = join_path(*folder, "cpu.toml");
  if (auto ok = app.files.write_atomic(path, *text); !ok) return ok;
  if (!app.json) {
    print_table(app, figures);
    app.print(fmt::format("written to {}", path));
    return {};
  }
  nlohmann::json object{{"profile", path}, {"figures", nlohmann::json::array()}};
  for (const auto& f : figures)
    object["figures"].push_back({{"rate", f.rate},
                                 {"implementation", f.implementation},
                                 {"threads", f.threads},
                                 {"value", f.value}});
  for (const Rate& rate : kRates)
    object["measured"][std::string(rate.key)] = best_ceiling(figures, rate.name)->value;
  app.print(dump_json(object));
  return {};
}

void add_bench_ceilings(CLI::App& bench, App& app, Action& action) {
  struct Options {
    std::string into;
    double seconds = 0.2;
    int threads = 0;
  };
  auto o = std::make_shared<Options>();
  auto* command = bench.add_subcommand(
      "ceilings",
      "this machine's measured rates (memory, multiply-adds, products), several "
      "implementations each; kept as the hardware profile cpu");
  command->add_option("--into", o->into, "folder for the profile (default: the user's)");
  command->add_option("--seconds", o->seconds, "for each implementation")
      ->check(CLI::Range(0.001, 10.0));
  command->add_option("--threads", o->threads, "up to so many (default: all)")
      ->check(CLI::Range(1, 4096));
  command->callback([&action, &app, o] {
    action = [&app, o] { return measure_ceilings(app, o->into, o->seconds, o->threads); };
  });
}

}  // namespace sculler::cli
