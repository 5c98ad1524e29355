// The table of all settings: keys, where their values are, bounds and what is said of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/settings.h"

namespace sculler::cli {

using Field =
    std::variant<std::string Settings::*, int64_t Settings::*, double Settings::*,
                 std::string llm::Settings::*, int64_t llm::Settings::*, double llm::Settings::*,
                 int64_t search::EvolveSettings::*, double search::EvolveSettings::*,
                 int64_t search::beam::BeamSettings::*, double search::beam::BeamSettings::*>;

// Where the value of a field is; exactly one of the three is not null.
struct Place {
  std::string* text = nullptr;
  int64_t* integer = nullptr;
  double* number = nullptr;
};
[[nodiscard]] Place place_of(Settings& settings, const Field& field);
[[nodiscard]] bool is_text(const Field& field);

struct Setting {
  std::string_view key;
  Field field;
  double low = 0, high = 0;       // of numbers
  std::string_view choices = {};  // "auto|cuda|emu|cpu"
  std::string_view note = {};
};

// In the order of the file.
[[nodiscard]] const std::vector<Setting>& settings_table();

}  // namespace sculler::cli
