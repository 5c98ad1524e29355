#include "emu/predict/job.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace sculler::emu {

namespace {

constexpr size_t kTimeline = 96;

Result<task::Work> work(const nlohmann::json& object, const char* key) {
  const auto* found = find_member(object, key);
  if (found == nullptr || !found->is_object()) {
    return fail(Error{ErrorCode::kBadInput,
                      "an object with flops, hbm_bytes and link_bytes is expected",
                      {},
                      std::string("emu.predict.") + key,
                      {}});
  }
  task::Work out{number_or(*found, "flops", 0), number_or(*found, "hbm_bytes", 0),
                 number_or(*found, "link_bytes", 0)};
  for (const double value : {out.flops, out.hbm_bytes, out.link_bytes}) {
    if (!std::isfinite(value) || value < 0) {
      return fail(Error{ErrorCode::kBadInput,
                        "work is a number that is not negative",
                        {},
                        std::string("emu.predict.") + key,
                        {}});
    }
  }
  return out;
}

double rounded(double us) { return std::round(us * 100) / 100; }

}  // namespace

Result<std::optional<JobPrediction>> predict_job(std::string_view emu_json, const Trace& trace,
                                                 int n_ranks, Files& files) {
  if (emu_json.empty()) return std::nullopt;
  auto emu = parse_json(emu_json, "emu");
  if (!emu) return fail(emu.error());
  const auto* asked = emu->is_object() ? find_member(*emu, "predict") : nullptr;
  if (asked == nullptr || !asked->is_object()) return std::nullopt;
  const std::string profile = string_or(*emu, "profile", "");
  if (profile.empty()) {
    return fail(Error{
        ErrorCode::kBadInput, "a prediction needs a hardware profile", {}, "emu.profile", {}});
  }
  auto hardware = load_hardware(files, profile);
  if (!hardware) return fail(hardware.error());
  PredictRequest request;
  request.n_ranks = n_ranks;
  request.after_first_wait = true;
  auto real = work(*asked, "work");
  if (!real) return fail(real.error());
  auto emulated = work(*asked, "work_emulated");
  if (!emulated) return fail(emulated.error());
  request.real = *real;
  request.emulated = *emulated;
  auto prediction = predict(trace, request, hardware->rates);
  if (!prediction) return fail(prediction.error());
  nlohmann::json out{{"size", string_or(*asked, "size", "")},
                     {"latency_us", rounded(prediction->latency_us)}};
  for (const double us : prediction->per_rank_us) out["per_rank_us"].push_back(rounded(us));
  out["timeline"] = nlohmann::json::array();
  for (const PredictedOp& op : prediction->ops) {
    if (out["timeline"].size() >= kTimeline) break;
    if (op.end_us - op.start_us < 0.5) continue;  // events and the like
    out["timeline"].push_back({{"rank", op.rank},
                               {"stream", op.stream},
                               {"what", op.name.substr(0, 120)},
                               {"start_us", rounded(op.start_us)},
                               {"end_us", rounded(op.end_us)},
                               {"bound", op.bound}});
  }
  return JobPrediction{std::move(*prediction), dump_json(out)};
}

}  // namespace sculler::emu
