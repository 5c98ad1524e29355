// A job line for tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sculler::eval {

inline nlohmann::json job_object(char digit = 'a') {
  return {{"version", 1},
          {"job", std::string(64, digit)},
          {"task", "/tasks/t"},
          {"target", "emu"},
          {"n_ranks", 2},
          {"candidate",
           {{"files", {{{"name", "candidate.cu"}, {"text", "int x;"}}}},
            {"defines", {{"TILE", "64"}}},
            {"directive", {{"backend", "lsa"}}}}},
          {"size", "emu"},
          {"seed", 7},
          {"stages", {"run", "lint", "compile"}}};
}

}  // namespace sculler::eval
