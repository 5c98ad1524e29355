#include "task/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "base/toml.h"

namespace sculler::task {
namespace {

void collect(const TomlNode& node, const std::string& path, Profile& profile) {
  for (const auto& [key, value] : node.table) {
    const std::string dotted = path.empty() ? key : path + "." + key;
    if (value.is_table()) collect(value, dotted, profile);
    if (value.kind == TomlNode::Kind::kInteger || value.kind == TomlNode::Kind::kFloat)
      profile.numbers[dotted] = value.number;
  }
}

}  // namespace

std::optional<double> Profile::number(std::string_view key) const {
  const auto found = numbers.find(key);
  if (found == numbers.end()) return std::nullopt;
  return found->second;
}

Result<Profile> load_profile(Files& files, const std::string& path) {
  auto text = files.read(path);
  if (!text) return fail(text.error());
  auto tree = parse_toml(*text, path);
  if (!tree) return fail(tree.error());
  const TomlReader root(*tree, path);
  Profile profile;
  profile.path = absolute_path(path);
  collect(*tree, {}, profile);
  auto version = root.integer("version");
  if (!version) return fail(version.error());
  if (*version != 1) {
    Error error = root.error("version", fmt::format("format {} is not known here", *version),
                             "use a profile of format 1");
    error.code = ErrorCode::kVersion;
    return fail(std::move(error));
  }
  auto name = root.string("name");
  if (!name) return fail(name.error());
  profile.name = *name;
  for (const auto& [key, field] :
       {std::pair{"summary", &profile.summary}, std::pair{"arch", &profile.arch}}) {
    auto value = root.string_or(key, "");
    if (!value) return fail(value.error());
    *field = *value;
  }
  auto devices = root.integer_or("devices", 1);
  if (!devices) return fail(devices.error());
  profile.n_devices = static_cast<int>(std::clamp<int64_t>(*devices, 1, 1024));
  if (root.has("env")) {
    auto env = root.table("env");
    if (!env) return fail(env.error());
    for (const auto& [key, value] : env->node().table) {
      if (value.kind != TomlNode::Kind::kString)
        return fail(env->error(key, "a string is expected", "put it in quotes"));
      profile.env.emplace_back(key, value.string);
    }
  }
  if (root.has("allow")) {
    auto allow = root.table("allow");
    if (!allow) return fail(allow.error());
    for (const auto& [key, field] :
         {std::pair{"multicast", &profile.multicast}, std::pair{"gin", &profile.gin},
          std::pair{"lsa", &profile.lsa}}) {
      auto value = allow->boolean_or(key, *field);
      if (!value) return fail(value.error());
      *field = *value;
    }
  }
  return profile;
}

Result<std::string> find_profile(Files& files, const std::vector<std::string>& roots,
                                 std::string_view name) {
  if (name.find('/') != std::string_view::npos || name.ends_with(".toml")) {
    const std::string path = absolute_path(name);
    if (files.exists(path)) return path;
    return fail(Error{ErrorCode::kNotFound, "no such profile", path, {}, {}});
  }
  std::vector<std::string> known;
  for (const auto& root : roots) {
    const std::string path = join_path(root, fmt::format("{}.toml", name));
    if (files.exists(path)) return path;
    if (auto names = files.list(root)) {
      for (const auto& other : *names) {
        if (other.ends_with(".toml")) known.push_back(other.substr(0, other.size() - 5));
      }
    }
  }
  const auto like = nearest(name, known);
  return fail(
      ErrorCode::kNotFound, fmt::format("unknown hardware profile {}", name),
      like ? fmt::format("did you mean {}?", *like) : fmt::format("known: {}", join(known, ", ")));
}

Result<SpeedOfLight> speed_of_light(const Profile& profile, const Work& work,
                                    std::string_view products) {
  SpeedOfLight out;
  // Microseconds that `amount` takes at "nominal.KEY", in units of `scale` a second.
  const auto time = [&](double amount, const std::string& key, double scale) -> Result<double> {
    if (amount <= 0) return 0.0;
    const auto rate = profile.number("nominal." + key);
    if (!rate || !(*rate > 0)) {
      return fail(Error{ErrorCode::kNotFound,
                        "the rate is missing, so no speed of light can be given", profile.path,
                        "nominal." + key, "add it to the profile"});
    }
    return amount / (*rate * scale) * 1e6;
  };
  auto flops = time(work.flops, fmt::format("{}_tflops", products), 1e12);
  if (!flops) return fail(flops.error());
  auto hbm = time(work.hbm_bytes, "hbm_gbs", 1e9);
  if (!hbm) return fail(hbm.error());
  auto link = time(work.link_bytes, "link_gbs", 1e9);
  if (!link) return fail(link.error());
  auto vec = time(work.flops_vec, "f32_tflops", 1e12);
  if (!vec) return fail(vec.error());
  out.flops_us = *flops;
  out.vec_us = *vec;
  out.hbm_us = *hbm;
  out.link_us = *link;
  out.us = std::max({*flops, *hbm, *link, *vec});
  out.bound = out.us == *flops  ? "flops"
              : out.us == *link ? "link"
              : out.us == *hbm  ? "hbm"
                                : "vec";
  return out;
}

std::optional<Ceiling> measured_ceiling(const Profile& profile, const Work& work) {
  const auto memory = profile.number("measured.memory_gbs"),
             product = profile.number("measured.product_gflops"),
             vector = profile.number("measured.vector_gflops");
  if (!(memory.value_or(0) > 0) || !(product.value_or(0) > 0) || !(vector.value_or(0) > 0))
    return std::nullopt;
  Ceiling out;
  out.memory_us = work.hbm_bytes / *memory / 1e3;
  out.product_us = work.flops / *product / 1e3;
  out.vector_us = work.flops_vec / *vector / 1e3;
  out.us = std::max({out.memory_us, out.product_us, out.vector_us});
  out.bound = out.us == out.memory_us ? "memory" : out.us == out.product_us ? "product" : "vector";
  return out;
}

}  // namespace sculler::task
