#include "directive/directive.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"

namespace sculler::directive {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 4> kBackends = {"none", "lsa", "gin", "hybrid"};
constexpr std::array<std::string_view, 4> kIssuers = {"thread", "warp", "cta", "copy_engine"};
constexpr std::array<std::string_view, 5> kPlacements = {
    "sequential", "stream_overlap", "split_phase", "kernel_fused", "tile_fused"};
constexpr std::array<std::string_view, 3> kSyncs = {"global", "peer", "tile"};
constexpr std::size_t kMaxWhy = 2000;

Error bad(std::string_view origin, std::string_view key, std::string message, std::string cure) {
  return {ErrorCode::kBadDirective, std::move(message), std::string(origin), std::string(key),
          std::move(cure)};
}

std::vector<std::string> words_of(const auto& names) { return {names.begin(), names.end()}; }

template <class Enum, std::size_t N>
Status read_word(const json& object, const char* key, const std::array<std::string_view, N>& names,
                 bool needed, std::string_view origin, Enum& out) {
  const json* found = find_member(object, key);
  const std::string choices = join(words_of(names), ", ");
  if (found == nullptr) {
    if (!needed) return {};
    return fail(bad(origin, key, "is missing", fmt::format("choose one of {}", choices)));
  }
  if (!found->is_string()) {
    return fail(bad(origin, key, fmt::format("a string expected, {} found", found->type_name()),
                    fmt::format("choose one of {}", choices)));
  }
  const auto& word = found->get_ref<const std::string&>();
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == word) {
      out = static_cast<Enum>(i);
      return {};
    }
  }
  const auto like = nearest(word, words_of(names));
  return fail(bad(
      origin, key, fmt::format("\"{}\" is unknown", printable(shorten(word, 60))),
      like ? fmt::format("did you mean {}?", *like) : fmt::format("choose one of {}", choices)));
}

}  // namespace

std::string_view name(Backend value) { return kBackends[static_cast<std::size_t>(value)]; }
std::string_view name(Issuer value) { return kIssuers[static_cast<std::size_t>(value)]; }
std::string_view name(Placement value) { return kPlacements[static_cast<std::size_t>(value)]; }
std::string_view name(Sync value) { return kSyncs[static_cast<std::size_t>(value)]; }

Result<Directive> parse(const json& object, std::string_view origin) {
  if (!object.is_object()) {
    return fail(bad(origin, {},
                    fmt::format("a directive is an object, {} found", object.type_name()),
                    "write {\"backend\":…}"));
  }
  static const std::vector<std::string> kKeys = {"backend", "issuer",      "placement",
                                                 "sync",    "granularity", "why"};
  for (const auto& [key, value] : object.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
    const auto like = nearest(key, kKeys);
    return fail(bad(origin, printable(shorten(key, 60)), "is not a dimension of a directive",
                    like ? fmt::format("did you mean {}?", *like)
                         : fmt::format("known: {}", join(kKeys, ", "))));
  }
  Directive out;
  if (auto ok = read_word(object, "backend", kBackends, true, origin, out.backend); !ok)
    return fail(ok.error());
  if (auto ok = read_word(object, "issuer", kIssuers, false, origin, out.issuer); !ok)
    return fail(ok.error());
  if (auto ok = read_word(object, "placement", kPlacements, false, origin, out.placement); !ok)
    return fail(ok.error());
  if (auto ok = read_word(object, "sync", kSyncs, false, origin, out.sync); !ok)
    return fail(ok.error());
  if (find_member(object, "granularity") != nullptr) {
    auto bytes = get_int(object, "granularity", origin, 0, int64_t{1} << 40);
    if (!bytes) {
      return fail(bad(origin, "granularity", bytes.error().message,
                      "give the bytes of one transfer, or 0"));
    }
    out.granularity = *bytes;
  }
  if (const json* why = find_member(object, "why")) {
    if (!why->is_string())
      return fail(bad(origin, "why", "a string expected", "say in a sentence why"));
    out.why = why->get<std::string>().substr(0, kMaxWhy);
  }
  return out;
}

Result<Directive> parse_text(std::string_view text, std::string_view origin) {
  auto object = parse_json(text, origin, std::size_t{1} << 16, 4);
  if (!object) {
    Error error = object.error();
    error.code = ErrorCode::kBadDirective;
    return fail(std::move(error));
  }
  return parse(*object, origin);
}

Result<std::optional<Directive>> from_source(std::string_view source, std::string_view origin) {
  constexpr std::string_view kMark = "sculler:directive";
  int number = 0;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    auto line = trim(source.substr(at, end - at));
    at = end + 1;
    ++number;
    if (!line.starts_with("//")) continue;
    line = trim(line.substr(2));
    if (!line.starts_with(kMark)) continue;
    auto parsed = parse_text(trim(line.substr(kMark.size())), fmt::format("{}:{}", origin, number));
    if (!parsed) {
      Error error = parsed.error();
      error.file = fmt::format("{}:{}", origin, number);
      return fail(std::move(error));
    }
    return std::optional<Directive>(std::move(*parsed));
  }
  return std::optional<Directive>();
}

json to_json(const Directive& d) {
  return {{"backend", name(d.backend)},     {"issuer", name(d.issuer)},
          {"placement", name(d.placement)}, {"sync", name(d.sync)},
          {"granularity", d.granularity},   {"why", d.why}};
}

std::string print(const Directive& d) {
  if (d.backend == Backend::kNone && d.placement == Placement::kSequential) return "none";
  return fmt::format("{} {} {} {}", name(d.backend), name(d.issuer), name(d.placement),
                     name(d.sync));
}

int granularity_band(int64_t bytes) {
  if (bytes <= 0) return 0;
  if (bytes <= 1 << 10) return 1;
  if (bytes <= 64 << 10) return 2;
  return bytes <= 4 << 20 ? 3 : 4;
}

int cell(const Directive& d) {
  int index = static_cast<int>(d.backend);
  index = index * 4 + static_cast<int>(d.issuer);
  index = index * 5 + static_cast<int>(d.placement);
  index = index * 3 + static_cast<int>(d.sync);
  return index * 5 + granularity_band(d.granularity);
}

}  // namespace sculler::directive
