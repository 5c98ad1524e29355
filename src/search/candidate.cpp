#include "search/candidate.h"

#include "base/sha256.h"

namespace sculler::search {

std::string Candidate::label() const {
  std::string out = source->name;
  for (const auto& [name, value] : defines) {
    for (const auto& tunable : source->tunables) {
      if (tunable.name == name && tunable.values[tunable.usual] != value)
        out += " " + name + "=" + value;
    }
  }
  return out;
}

Result<std::shared_ptr<const Source>> make_source(std::string name, std::string path,
                                                  std::string text) {
  auto out = std::make_shared<Source>();
  out->name = std::move(name);
  out->path = std::move(path);
  out->file_name = out->path.ends_with(".cpp")  ? "candidate.cpp"
                   : out->path.ends_with(".py") ? "candidate.py"
                                                : "candidate.cu";
  out->text = std::move(text);
  out->sha256 = sha256_hex(out->text);
  auto files = source::split_bundle(out->text, out->file_name, out->path);
  if (!files) return fail(files.error());
  out->files = std::move(*files);
  auto directive = directive::from_source(out->text, out->path);
  if (!directive) return fail(directive.error());
  out->has_directive = directive->has_value();
  if (*directive) out->directive = **directive;
  auto tunables = source::find_tunables(out->text, out->path);
  if (!tunables) return fail(tunables.error());
  out->tunables = std::move(*tunables);
  return std::shared_ptr<const Source>(std::move(out));
}

Result<std::shared_ptr<const Source>> load_source(Files& files, const std::string& path) {
  auto text = source::read_bundle(files, path);
  if (!text) return fail(text.error());
  std::string name = file_name(path);
  name.resize(std::min(name.rfind('.'), name.size()));
  return make_source(std::move(name), path, std::move(*text));
}

Candidate usual(std::shared_ptr<const Source> source, std::string origin) {
  Candidate out;
  out.defines = source::point(source->tunables, source::usual_choice(source->tunables));
  out.source = std::move(source);
  out.origin = std::move(origin);
  return out;
}

}  // namespace sculler::search
