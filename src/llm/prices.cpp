#include "llm/prices.h"

#include <cmath>

#include "base/toml.h"

namespace sculler::llm {

Result<Prices> Prices::load(Files& files, const std::string& path) {
  auto text = files.read(path, 1 << 20);
  if (!text) return fail(text.error());
  return parse(*text, path);
}

Result<Prices> Prices::parse(std::string_view text, const std::string& origin) {
  auto tree = parse_toml(text, origin);
  if (!tree) return fail(tree.error());
  const TomlReader root(*tree, origin);
  if (auto ok = root.only({"version", "note", "price"}); !ok) return fail(ok.error());
  auto version = root.integer("version");
  if (!version) return fail(version.error());
  if (*version != 1) {
    Error error = root.error("version", "is not 1", "use the prices.toml of this sculler");
    error.code = ErrorCode::kVersion;
    return fail(std::move(error));
  }
  Prices out;
  if (!root.has("price")) return out;
  auto tables = root.tables("price");
  if (!tables) return fail(tables.error());
  for (const auto& table : *tables) {
    if (auto ok = table.only({"model", "in", "out", "context"}); !ok) return fail(ok.error());
    Price price;
    auto model = table.string("model");
    auto in = table.number("in");
    auto dear = table.number("out");
    auto context = table.integer_or("context", 0);
    if (!model) return fail(model.error());
    if (!in) return fail(in.error());
    if (!dear) return fail(dear.error());
    if (!context) return fail(context.error());
    price = {*model, *in, *dear, *context};
    if (price.model.empty()) return fail(table.error("model", "is empty"));
    for (const auto& [key, value] : {std::pair{"in", price.in}, std::pair{"out", price.out}}) {
      if (!std::isfinite(value) || value < 0 || value > 1e6)
        return fail(table.error(key, "is no price", "USD a million tokens, 0 or more"));
    }
    if (price.context < 0) return fail(table.error("context", "is negative"));
    out.prices_.push_back(std::move(price));
  }
  return out;
}

namespace {

// "-latest", "-2025-04-14", "-20250414", "@…" or ":…": another edition of the same model at the
// same price. "gpt-5-mini" is none of "gpt-5".
bool edition(std::string_view rest) {
  if (rest.empty() || rest == "-latest" || rest.front() == '@' || rest.front() == ':') return true;
  if (rest.front() != '-') return false;
  std::size_t digits = 0;
  for (const char c : rest.substr(1)) {
    if (c >= '0' && c <= '9') ++digits;
    else if (c != '-') return false;
  }
  return digits == 8;
}

}  // namespace

std::optional<Price> Prices::find(std::string_view model) const {
  const auto slash = model.rfind('/');
  const std::string_view plain = slash == std::string_view::npos ? model : model.substr(slash + 1);
  for (const auto& price : prices_) {
    for (const auto name : {model, plain}) {
      if (name.starts_with(price.model) && edition(name.substr(price.model.size()))) return price;
    }
  }
  return std::nullopt;
}

}  // namespace sculler::llm
