// A candidate as the search knows it: a source that many share, values of its tunables, a
// directive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "directive/directive.h"
#include "source/bundle.h"
#include "source/tunables.h"

namespace sculler::search {

// A text with what was read from it once; shared by its candidates.
struct Source {
  std::string name;                 // "tile_store"
  std::string file_name;            // "candidate.cu", "candidate.cpp"
  std::string text;                 // of all files (source/bundle.h)
  std::vector<source::File> files;  // the first is the translation unit, of the name file_name
  std::string sha256;               // of text
  std::string path;                 // where it was read, for messages
  directive::Directive directive;
  bool has_directive = false;
  std::vector<source::Tunable> tunables;
};

struct Candidate {
  std::shared_ptr<const Source> source;
  source::Defines defines;
  std::string origin;  // "seed", "baseline", "tuner", "user", "model"
  int64_t parent = 0;  // program id
  bool baseline = false;
  bool confirm = false;       // again, on fresh seeds: its strategy asks for it
  std::string proposed_by{};  // "island 1, MODEL", for the table; empty: the strategy itself
  std::string why{};          // what its proposer says it did
  int64_t measurement = 0;    // n: the n-th time that a known program is timed again

  // "tile_store TILE_M=128": only the tunables that differ from the usual values.
  [[nodiscard]] std::string label() const;
};

// Reads tunables and directive. Evolve blocks are not asked for here: the lint does.
[[nodiscard]] Result<std::shared_ptr<const Source>> load_source(Files& files,
                                                                const std::string& path);
[[nodiscard]] Result<std::shared_ptr<const Source>> make_source(std::string name, std::string path,
                                                                std::string text);
// The candidate with the usual values of all tunables.
[[nodiscard]] Candidate usual(std::shared_ptr<const Source> source, std::string origin);

}  // namespace sculler::search
