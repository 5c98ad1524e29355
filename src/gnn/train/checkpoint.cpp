#include "gnn/train/checkpoint.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/sha256.h"

namespace sculler::gnn {

namespace {
constexpr int kVersion = 1;
}

std::string encode(const Checkpoint& checkpoint) {
  const std::string_view floats(reinterpret_cast<const char*>(checkpoint.state.data()),
                                checkpoint.state.size() * sizeof(float));
  nlohmann::json settings = nlohmann::json::array();
  for (const auto& [name, value] : checkpoint.settings) settings.push_back({name, value});
  return dump_json({{"sculler_checkpoint", kVersion},
                    {"epochs", checkpoint.epochs},
                    {"settings", settings},
                    {"floats", checkpoint.state.size()},
                    {"sha256", sha256_hex(floats)}}) +
         "\n" + std::string(floats);
}

Result<Checkpoint> decode(std::string_view bytes, const std::string& origin) {
  const auto bad = [&](std::string message) {
    return fail(
        {ErrorCode::kBadInput, std::move(message), origin, {}, "Begin again without --resume."});
  };
  const auto end = bytes.substr(0, 1 << 20).find('\n');
  if (end == std::string_view::npos) return bad("is no checkpoint");
  auto head = parse_json(bytes.substr(0, end), origin, 1 << 20);
  if (!head) return fail(head.error());
  if (int_or(*head, "sculler_checkpoint", 0) != kVersion)
    return bad("is no checkpoint of this version");
  auto epochs = get_int(*head, "epochs", origin, 0);
  auto floats = get_int(*head, "floats", origin, 0, int64_t{1} << 40);
  auto settings = get_array(*head, "settings", origin);
  if (!epochs) return fail(epochs.error());
  if (!floats) return fail(floats.error());
  if (!settings) return fail(settings.error());
  const std::string_view rest = bytes.substr(end + 1);
  if (rest.size() != static_cast<uint64_t>(*floats) * sizeof(float))
    return bad("is cut: " + std::to_string(rest.size() / sizeof(float)) + " of " +
               std::to_string(*floats) + " numbers are there");
  if (sha256_hex(rest) != string_or(*head, "sha256", "")) return bad("is damaged");
  Checkpoint out;
  out.epochs = static_cast<uint64_t>(*epochs);
  for (const auto& pair : **settings) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      return bad("has settings that are no pairs");
    out.settings.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  out.state.resize(static_cast<uint64_t>(*floats));
  if (!rest.empty()) std::memcpy(out.state.data(), rest.data(), rest.size());
  return out;
}

Status same_settings(const Checkpoint& checkpoint, const Checkpoint& now,
                     const std::string& origin) {
  for (size_t i = 0; i < now.settings.size(); ++i) {
    const auto& [name, value] = now.settings[i];
    const std::string was = i < checkpoint.settings.size() && checkpoint.settings[i].first == name
                                ? checkpoint.settings[i].second
                                : "unknown";
    if (was != value)
      return fail({ErrorCode::kUsage,
                   "is " + was + " in the checkpoint, " + value + " now: the losses would differ",
                   origin, name, "Resume with the settings of the run that wrote it."});
  }
  return {};
}

}  // namespace sculler::gnn
