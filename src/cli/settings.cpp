#include "cli/settings.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <variant>

#include "base/strings.h"
#include "base/toml.h"

namespace sculler::cli {
namespace {

using Field =
    std::variant<std::string Settings::*, int64_t Settings::*, double Settings::*,
                 std::string llm::Settings::*, int64_t llm::Settings::*, double llm::Settings::*,
                 int64_t search::EvolveSettings::*, double search::EvolveSettings::*>;
// Where the value of a field is; exactly one of the three is not null.
struct Place {
  std::string* text = nullptr;
  int64_t* integer = nullptr;
  double* number = nullptr;
};
Place place_of(Settings& settings, const Field& field) {
  Place place;
  if (const auto* f = std::get_if<std::string Settings::*>(&field)) place.text = &(settings.**f);
  if (const auto* f = std::get_if<int64_t Settings::*>(&field)) place.integer = &(settings.**f);
  if (const auto* f = std::get_if<double Settings::*>(&field)) place.number = &(settings.**f);
  if (const auto* f = std::get_if<std::string llm::Settings::*>(&field))
    place.text = &(settings.llm.**f);
  if (const auto* f = std::get_if<int64_t llm::Settings::*>(&field))
    place.integer = &(settings.llm.**f);
  if (const auto* f = std::get_if<double llm::Settings::*>(&field))
    place.number = &(settings.llm.**f);
  if (const auto* f = std::get_if<int64_t search::EvolveSettings::*>(&field))
    place.integer = &(settings.evolve.**f);
  if (const auto* f = std::get_if<double search::EvolveSettings::*>(&field))
    place.number = &(settings.evolve.**f);
  return place;
}
bool is_text(const Field& field) {
  return std::holds_alternative<std::string Settings::*>(field) ||
         std::holds_alternative<std::string llm::Settings::*>(field);
}

struct Setting {
  std::string_view key;
  Field field;
  double low = 0, high = 0;       // of numbers
  std::string_view choices = {};  // "auto|cuda|emu|cpu"
  std::string_view note = {};
};

const std::array kSettings = {
    Setting{"task", &Settings::task, 0, 0, {}, "name, or the folder of a task"},
    Setting{"target", &Settings::target, 0, 0, "auto|cuda|emu|cpu",
            "auto: cuda where there are enough GPUs, else emu; cpu for tasks of the host"},
    Setting{"profile",
            &Settings::profile,
            0,
            0,
            {},
            "hardware profile; auto: what the machine is, h200x2 on emu"},
    Setting{"ranks", &Settings::ranks, 0, 64, {}, "0: the task's"},
    Setting{"nodes", &Settings::nodes, 1, 16, {}, "emu: that the ranks lie on, as many on each"},
    Setting{"size",
            &Settings::size,
            0,
            0,
            {},
            "problem size; auto: emu on the emulator, default elsewhere"},
    Setting{"predict_size",
            &Settings::predict_size,
            0,
            0,
            {},
            "size that the emulator's times are predicted for"},
    Setting{"seed", &Settings::seed, 0, 4e18, {}, "of inputs, schedules and choices"},
    Setting{"strategy", &Settings::strategy, 0, 0, "tuner|evolve|lower",
            "tuner: no model; evolve: models write programs; lower: a run of sculler lower"},
    Setting{"budget.candidates", &Settings::candidates, 0, 1e9, {}, "0: no bound"},
    Setting{"budget.minutes", &Settings::minutes, 0, 1e6, {}, "0: no bound"},
    Setting{"budget.patience",
            &Settings::patience,
            0,
            1e9,
            {},
            "candidates without a better one; 0: no bound"},
    Setting{"budget.target_ratio",
            &Settings::target_ratio,
            0,
            1e6,
            {},
            "over the best baseline; 0: none"},
    Setting{"budget.stop_at_percent_sol", &Settings::stop_at_percent_sol, 0, 1000, {}, "0: never"},
    Setting{
        "eval.parallel", &Settings::parallel, 0, 1024, {}, "evaluations at once; 0: one a core"},
    Setting{"eval.confirm",
            &Settings::confirm,
            0,
            100,
            {},
            "elites that are tried on fresh seeds at the end"},
    Setting{"eval.cache", &Settings::cache, 0, 0, {}, "folder; empty: the user's cache"},
    Setting{"eval.containment", &Settings::containment, 0, 0, "auto|no-userns|none",
            "none: no sandbox, every verdict says so"},
    Setting{"tuner.round_points",
            &Settings::round_points,
            1,
            10000,
            {},
            "points of a source in one round at most"},
    Setting{
        "batch.profile",
        &Settings::batch_profile,
        0,
        0,
        {},
        "target emu: the best programs go into job folders (RUN/batches) for GPUs of this profile"},
    Setting{"batch.size", &Settings::batch_size, 0, 0, {}, "a size of the task to be measured at"},
    Setting{"batch.every",
            &Settings::batch_every,
            1,
            1e6,
            {},
            "programs evaluated from one batch to the next"},
    Setting{"batch.programs", &Settings::batch_programs, 1, 1000, {}, "programs in a batch"},
    Setting{"batch.most", &Settings::batch_most, 1, 1000, {}, "batches of a run"},
    Setting{"batch.wait_minutes",
            &Settings::batch_wait_minutes,
            0,
            1e6,
            {},
            "at the end, for verdicts that are owed"},
    Setting{"evolve.islands",
            &search::EvolveSettings::islands,
            1,
            64,
            {},
            "populations that evolve apart"},
    Setting{"evolve.archive",
            &search::EvolveSettings::archive,
            1,
            1e6,
            {},
            "programs that may become parents, over all islands"},
    Setting{"evolve.generations",
            &search::EvolveSettings::generations,
            0,
            1e9,
            {},
            "proposals in all; 0: as many as the budget takes"},
    Setting{"evolve.calls",
            &search::EvolveSettings::calls,
            0,
            1024,
            {},
            "proposals written at once; 0: llm.parallel"},
    Setting{"evolve.lambda",
            &search::EvolveSettings::lambda,
            0,
            1e6,
            {},
            "how much better parents are preferred"},
    Setting{"evolve.migrate_every",
            &search::EvolveSettings::migrate_every,
            0,
            1e9,
            {},
            "proposals; 0: never"},
    Setting{"evolve.migrate_share",
            &search::EvolveSettings::migrate_share,
            0,
            1,
            {},
            "of an island, its best, confirmed on fresh seeds first"},
    Setting{"evolve.explore",
            &search::EvolveSettings::explore,
            0,
            1,
            {},
            "first share of the proposals, for new structures"},
    Setting{"evolve.explore_mix",
            &Settings::evolve_explore_mix,
            0,
            0,
            {},
            "shares of diff, full, crossover"},
    Setting{"evolve.exploit_mix",
            &Settings::evolve_exploit_mix,
            0,
            0,
            {},
            "shares of diff, full, crossover"},
    Setting{"evolve.explore_temperatures",
            &Settings::evolve_explore_temperatures,
            0,
            0,
            {},
            "one is drawn a proposal"},
    Setting{"evolve.exploit_temperatures",
            &Settings::evolve_exploit_temperatures,
            0,
            0,
            {},
            "one is drawn a proposal"},
    Setting{"evolve.fix",
            &search::EvolveSettings::fix,
            0,
            1,
            {},
            "share of the proposals that repair a failed program"},
    Setting{"evolve.fixes",
            &search::EvolveSettings::fixes,
            0,
            1000,
            {},
            "repairs of one program at most"},
    Setting{"evolve.novelty",
            &search::EvolveSettings::novelty,
            0,
            2,
            {},
            "share of common token shingles from which a program is not new; above 1: off"},
    Setting{"evolve.summary_every",
            &search::EvolveSettings::summary_every,
            0,
            1e9,
            {},
            "proposals; 0: never"},
    Setting{"evolve.recommendations",
            &search::EvolveSettings::recommendations,
            0,
            100,
            {},
            "of a summary"},
    Setting{"evolve.inspirations",
            &search::EvolveSettings::inspirations,
            0,
            100,
            {},
            "other programs in a prompt"},
    Setting{"evolve.retries",
            &search::EvolveSettings::retries,
            0,
            100,
            {},
            "questions again after an answer that cannot be used"},
    Setting{"evolve.directive", &Settings::evolve_directive, 0, 0, "first|with_code",
            "first: a question of its own, before any code"},
    Setting{"evolve.scope", &Settings::evolve_scope, 0, 0, "blocks|file",
            "file: changes may go beyond the evolve blocks"},
    Setting{"evolve.judge", &Settings::evolve_judge, 0, 0, "no|yes",
            "a diagnosis before each repair"},
    Setting{"evolve.backends",
            &Settings::evolve_backends,
            0,
            0,
            {},
            "of the islands in turn: lsa,none; empty: any"},
    Setting{"evolve.context",
            &search::EvolveSettings::context,
            0,
            1e9,
            {},
            "tokens of prompt and answer; 0: what the models take"},
    Setting{"evolve.give_up",
            &search::EvolveSettings::give_up,
            0,
            1e9,
            {},
            "proposals one after another without a usable answer; 0: never"},
    Setting{"lower.file", &Settings::lower_file, 0, 0, {}, "the program that is lowered"},
    Setting{"lower.stage", &Settings::lower_stage, 0, 0, "A|B",
            "A: windows and device communicator; B: collectives too"},
    Setting{"lower.iterations_a",
            &Settings::lower_iterations_a,
            0,
            1000,
            {},
            "programs that a model may write for stage A"},
    Setting{"lower.iterations_b", &Settings::lower_iterations_b, 0, 1000, {}, "and for stage B"},
    Setting{"lower.annotations",
            &Settings::lower_annotations,
            0,
            1000,
            {},
            "answers of the annotator before evolve blocks are marked without it"},
    Setting{"lower.judge", &Settings::lower_judge, 0, 0, "yes|no",
            "a diagnosis of each program that did not pass"},
    Setting{"llm.model",
            &Settings::llm_model,
            0,
            0,
            {},
            "one model in a word (openai:NAME, anthropic:NAME, local, files:FOLDER, "
            "command:PROGRAM, script:FILE), or the name of a [[model]]; empty: all [[model]]s"},
    Setting{"llm.choose", &llm::Settings::choose, 0, 0, "weights|ucb",
            "how one of several models is chosen"},
    Setting{"llm.timeout",
            &llm::Settings::timeout_s,
            0.001,
            1e7,
            {},
            "seconds of a call with all its retries"},
    Setting{"llm.retries", &llm::Settings::retries, 0, 1000, {}, "after the first request"},
    Setting{"llm.parallel", &llm::Settings::parallel, 1, 4096, {}, "calls at once"},
    Setting{"llm.max_usd", &llm::Settings::max_usd, 0, 1e9, {}, "of the whole run; 0: no bound"},
    Setting{"llm.max_tokens",
            &llm::Settings::max_tokens,
            0,
            1e15,
            {},
            "prompts and answers of the whole run; 0: no bound"},
    Setting{"llm.stop_after",
            &llm::Settings::stop_after,
            0,
            1e6,
            {},
            "failures one after another until an endpoint counts as down; 0: never"},
    Setting{"llm.stop_after_seconds",
            &llm::Settings::stop_after_s,
            0,
            1e6,
            {},
            "that those failures must last"},
    Setting{"llm.max_answer_bytes",
            &llm::Settings::max_answer_bytes,
            1,
            1e9,
            {},
            "larger answers are cut off and lost"},
    Setting{"llm.prices",
            &llm::Settings::prices,
            0,
            0,
            {},
            "a prices.toml; empty: knowledge/prices.toml"},
    Setting{"llm.record",
            &Settings::llm_record,
            0,
            0,
            {},
            "a cassette that keeps answers, verdicts and their order"},
    Setting{"llm.replay",
            &Settings::llm_replay,
            0,
            0,
            {},
            "a cassette to be replayed instead of asking"},
    Setting{"llm.replay_prompts", &Settings::llm_replay_prompts, 0, 0, "same|any",
            "any: an answer fits its question by name, whatever the prompt says now"},
};

std::vector<std::string> choices_of(const Setting& setting) {
  std::vector<std::string> out;
  for (const auto word : split(setting.choices, '|')) out.emplace_back(word);
  return out;
}

Error bad(std::string_view where, std::string_view key, std::string message, std::string cure) {
  return {where == "--set" ? ErrorCode::kUsage : ErrorCode::kBadInput, std::move(message),
          std::string(where), std::string(key), std::move(cure)};
}

const Setting* find_setting(std::string_view key) {
  for (const auto& setting : kSettings) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

Error unknown(std::string_view where, std::string_view key) {
  const auto keys = setting_keys();
  auto like = nearest(key, keys);
  if (!like) {
    // "candidates" is near "budget.candidates".
    for (const auto& known : keys) {
      const auto dot = known.rfind('.');
      if (dot != std::string::npos && nearest(key, {known.substr(dot + 1)})) like = known;
    }
  }
  return bad(where, printable(shorten(key, 80)), "is not a known setting",
             like ? fmt::format("did you mean {}?", *like) : "sculler list settings shows them");
}

std::string value_text(const Settings& settings, const Setting& setting) {
  Settings copy = settings;
  const Place place = place_of(copy, setting.field);
  if (place.text != nullptr) return toml_quote(*place.text);
  if (place.integer != nullptr) return std::to_string(*place.integer);
  return fmt::format("{}", *place.number);
}

}  // namespace

std::vector<std::string> setting_keys() {
  std::vector<std::string> out;
  for (const auto& setting : kSettings) out.emplace_back(setting.key);
  return out;
}

Status set_setting(Settings& settings, std::string_view key, std::string_view value,
                   std::string_view where) {
  const Setting* setting = find_setting(key);
  if (setting == nullptr) return fail(unknown(where, key));
  const Place place = place_of(settings, setting->field);
  if (place.text != nullptr) {
    if (!setting->choices.empty()) {
      const auto choices = choices_of(*setting);
      if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
        const auto like = nearest(value, choices);
        return fail(bad(where, key, fmt::format("\"{}\" is unknown", printable(shorten(value, 60))),
                        like ? fmt::format("did you mean {}?", *like)
                             : fmt::format("use one of {}", join(choices, ", "))));
      }
    }
    *place.text = std::string(value);
    return {};
  }
  const auto number = parse_double(value);
  const bool whole = place.integer != nullptr;
  if (!number || !std::isfinite(*number) || (whole && !parse_int(value))) {
    return fail(bad(where, key,
                    fmt::format("\"{}\" is no {}", printable(shorten(value, 60)),
                                whole ? "whole number" : "number"),
                    {}));
  }
  if (*number < setting->low || *number > setting->high) {
    return fail(bad(where, key,
                    fmt::format("{} is outside {}..{}", value, setting->low, setting->high), {}));
  }
  if (whole) *place.integer = *parse_int(value);
  else *place.number = *number;
  return {};
}

Status apply_override(Settings& settings, std::string_view assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    return fail(ErrorCode::kUsage,
                fmt::format("--set {}: there is no \"=\"", printable(shorten(assignment, 80))),
                "write --set key=value");
  }
  return set_setting(settings, trim(assignment.substr(0, equals)),
                     trim(assignment.substr(equals + 1)), "--set");
}

Status read_settings(Files& files, const std::string& path, Settings& settings) {
  auto text = files.read(path, 1 << 20);
  if (!text) return fail(text.error());
  auto tree = parse_toml(*text, path);
  if (!tree) return fail(tree.error());
  const TomlReader root(*tree, path);
  if (root.has("version")) {
    auto version = root.integer("version");
    if (!version) return fail(version.error());
    if (*version != kRunVersion) {
      Error error = root.error(
          "version",
          fmt::format("run file of format {}, this program reads format {}", *version, kRunVersion),
          *version > kRunVersion ? "use the newer sculler that made it" : "start a new run");
      error.code = ErrorCode::kVersion;
      return fail(std::move(error));
    }
  }
  const auto scalar = [&](const TomlNode& node, const std::string& key) -> Status {
    const std::string where = fmt::format("{}:{}", path, node.line);
    std::string value;
    switch (node.kind) {
      case TomlNode::Kind::kString: value = node.string; break;
      case TomlNode::Kind::kInteger: value = std::to_string(node.integer); break;
      case TomlNode::Kind::kFloat: value = fmt::format("{}", node.number); break;
      default: {
        if (find_setting(key) == nullptr) return fail(unknown(where, key));
        return fail(bad(where, key, "a string or a number is expected", {}));
      }
    }
    const Setting* setting = find_setting(key);
    if (setting != nullptr && is_text(setting->field) != (node.kind == TomlNode::Kind::kString)) {
      return fail(bad(
          where, key,
          node.kind == TomlNode::Kind::kString ? "a number is expected" : "a string is expected",
          node.kind == TomlNode::Kind::kString ? "remove the quotes" : "put it in quotes"));
    }
    return set_setting(settings, key, value, where);
  };
  for (const auto& [key, node] : tree->table) {
    if (key == "version") continue;
    if (key == "model" && node.kind == TomlNode::Kind::kArray) {
      auto models = llm::read_models(root);
      if (!models) return fail(models.error());
      settings.llm.models = std::move(*models);
      continue;
    }
    if (!node.is_table()) {
      if (auto ok = scalar(node, key); !ok) return ok;
      continue;
    }
    for (const auto& [inner, value] : node.table) {
      if (auto ok = scalar(value, key + "." + inner); !ok) return ok;
    }
  }
  return {};
}

std::string print_settings(const Settings& settings) {
  std::string out = fmt::format("version = {}\n", kRunVersion);
  std::string section;
  for (const auto& setting : kSettings) {
    const auto dot = setting.key.find('.');
    const std::string group(dot == std::string_view::npos ? std::string_view()
                                                          : setting.key.substr(0, dot));
    if (group != section) {
      out += fmt::format("\n[{}]\n", group);
      section = group;
    }
    const auto key = dot == std::string_view::npos ? setting.key : setting.key.substr(dot + 1);
    out +=
        fmt::format("{} = {}  # {}{}\n", key, value_text(settings, setting),
                    setting.choices.empty() ? std::string() : std::string(setting.choices) + "; ",
                    setting.note);
  }
  return out + llm::print_models(settings.llm.models);
}

Result<llm::Settings> effective_llm(const Settings& settings) {
  llm::Settings out = settings.llm;
  if (settings.llm_model.empty()) return out;
  std::vector<std::string> names;
  for (const auto& model : settings.llm.models) {
    names.push_back(model.name);
    if (model.name == settings.llm_model) {
      out.models = {model};
      return out;
    }
  }
  auto model = llm::model_of_word(settings.llm_model);
  if (!model) {
    if (const auto like = nearest(settings.llm_model, names))
      return fail(Error{ErrorCode::kUsage,
                        "is the name of no [[model]]",
                        {},
                        "llm.model",
                        fmt::format("did you mean {}?", *like)});
    return fail(model.error());
  }
  model->where = "llm.model";
  out.models = {std::move(*model)};
  return out;
}

}  // namespace sculler::cli
