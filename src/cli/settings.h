// The settings of a run: run.toml, overridden by --set key=value. The effective ones are stored
// with the run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "llm/settings.h"
#include "search/beam/settings.h"
#include "search/evolve/settings.h"

namespace sculler::cli {

inline constexpr int kRunVersion = 1;

struct Settings {
  std::string task;              // name or folder
  std::string target = "auto";   // auto, cuda, emu, cpu
  std::string profile = "auto";  // of profiles/, or a path
  int64_t ranks = 0;             // 0: the task's
  int64_t nodes = 1;             // emu: that the ranks lie on
  std::string size = "auto";     // emu on emu, default elsewhere
  std::string predict_size = "default";
  int64_t seed = 1;
  std::string strategy = "tuner";
  int64_t candidates = 40;
  double minutes = 0;
  int64_t patience = 0;
  double target_ratio = 0;
  double stop_at_percent_sol = 95;
  int64_t parallel = 0;  // evaluations at once; 0: one a core (one at a time on cuda)
  int64_t confirm = 3;
  std::string cache;                 // empty: the user's cache
  std::string containment = "auto";  // auto, no-userns, none
  std::string launcher = "local";    // local, slurm
  std::string srun = "srun";         // the template of the line that starts a job step
  std::string slot_programs;         // folder of sculler-eval on the nodes; empty: of this one
  std::string slot_shared;           // folder that the nodes see; empty: they see what is here
  int64_t slots = 1, requeues = 3, silence_seconds = 60;
  double start_minutes = 0, answer_minutes = 120, idle_minutes = 10;
  int64_t round_points = 8;
  std::string batch_profile;  // of GPUs reached in batches; empty: none
  std::string batch_size = "default";
  int64_t batch_every = 8, batch_programs = 4, batch_most = 4;
  double batch_wait_minutes = 0;
  search::EvolveSettings evolve;  // its numbers; lists and words as text:
  std::string evolve_explore_mix = "0.15,0.7,0.15", evolve_exploit_mix = "0.25,0.6,0.15";
  std::string evolve_explore_temperatures = "0.2,0.5,0.8";
  std::string evolve_exploit_temperatures = "0,0.2,0.5";
  std::string evolve_directive = "first";  // first, with_code
  std::string evolve_scope = "blocks";     // blocks, file
  std::string evolve_judge = "no";         // no, yes
  std::string evolve_backends;
  search::beam::BeamSettings beam;  // its numbers; words as text:
  std::string beam_faithful = "no", beam_sampling = "no", beam_remeasure = "yes";  // no, yes
  std::string beam_memory = "on";     // on, off, a path
  std::string beam_scope = "blocks";  // blocks, file
  std::string lower_file;             // the host program of `sculler lower`
  std::string lower_stage = "B";      // A, B
  int64_t lower_iterations_a = 5, lower_iterations_b = 10, lower_annotations = 3;
  std::string lower_judge = "yes";  // yes, no
  std::string llm_model;  // one model in a word, or the name of a [[model]]; empty: all of them
  std::string llm_record, llm_replay;       // cassettes
  std::string llm_replay_prompts = "same";  // same, any
  llm::Settings llm;                        // with the [[model]] tables
};

// Every key, dotted, in the order of the file.
[[nodiscard]] std::vector<std::string> setting_keys();
// Sets one from text; kUsage with key and cure. `where` becomes the error's file.
[[nodiscard]] Status set_setting(Settings& settings, std::string_view key, std::string_view value,
                                 std::string_view where);
// "key=value" of the command line.
[[nodiscard]] Status apply_override(Settings& settings, std::string_view assignment);
// Reads a run.toml over `settings`. Unknown keys are named with the nearest; another version is
// kVersion.
[[nodiscard]] Status read_settings(Files& files, const std::string& path, Settings& settings);
// [llm] and the [[model]] tables with llm.model taken into account.
[[nodiscard]] Result<llm::Settings> effective_llm(const Settings& settings);
// The whole file, version first.
[[nodiscard]] std::string print_settings(const Settings& settings);

}  // namespace sculler::cli
