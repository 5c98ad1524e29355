// Traces as the emulator writes them (docs/internals.md, "Operations"), built call by call.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace sculler::analyze::test {

using nlohmann::json;

class TraceBuilder {
 public:
  explicit TraceBuilder(int ranks) {
    for (int r = 0; r < ranks; ++r) add(r, -1, "host_wait", "cudaStreamSynchronize");
  }
  int space(int rank, const std::string& name, uint64_t bytes) {
    trace["spaces"].push_back(
        {{"rank", rank}, {"name", name}, {"bytes", bytes}, {"address", 4096 * ++n_spaces_}});
    return static_cast<int>(trace["spaces"].size()) - 1;
  }
  // The id of the operation; `last` is it.
  int64_t add(int rank, int64_t stream, const std::string& kind, const std::string& name) {
    trace["operations"].push_back({{"id", next_},
                                   {"rank", rank},
                                   {"stream", stream},
                                   {"kind", kind},
                                   {"name", name},
                                   {"started", next_},
                                   {"bytes", 0},
                                   {"flops", 0}});
    return next_++;
  }
  json& last() { return trace["operations"].back(); }
  TraceBuilder& at(const std::string& place) {
    last()["at"] = place;
    return *this;
  }
  TraceBuilder& takes(double from, double to) {
    last()["start_us"] = from;
    last()["end_us"] = to;
    return *this;
  }
  TraceBuilder& after(std::vector<int64_t> ids) {
    last()["after"] = std::move(ids);
    return *this;
  }
  TraceBuilder& grid(int64_t blocks, int64_t steps) {
    last()["blocks"] = blocks;
    last()["steps"] = steps;
    return *this;
  }
  // `parts`: first and last block, first and last step, of each.
  TraceBuilder& touch(const char* key, int space, uint64_t begin, uint64_t end,
                      const std::vector<std::vector<int64_t>>& parts = {},
                      const std::string& at = {}) {
    json range{{"space", space}, {"begin", begin}, {"end", end}};
    if (!parts.empty()) range["parts"] = parts;
    if (!at.empty()) range["at"] = at;
    last()[key].push_back(std::move(range));
    return *this;
  }
  TraceBuilder& reads(int space, uint64_t begin, uint64_t end,
                      const std::vector<std::vector<int64_t>>& parts = {},
                      const std::string& at = {}) {
    return touch("reads", space, begin, end, parts, at);
  }
  TraceBuilder& writes(int space, uint64_t begin, uint64_t end,
                       const std::vector<std::vector<int64_t>>& parts = {},
                       const std::string& at = {}) {
    return touch("writes", space, begin, end, parts, at);
  }
  TraceBuilder& call(json one) {
    last()["calls"].push_back(std::move(one));
    return *this;
  }
  static json range(int space, uint64_t begin, uint64_t end) {
    return {{"space", space}, {"begin", begin}, {"end", end}};
  }
  [[nodiscard]] std::string text() const { return trace.dump(); }

  json trace{{"spaces", json::array()}, {"operations", json::array()}, {"truncated", false}};

 private:
  int64_t next_ = 0;
  uint64_t n_spaces_ = 0;
};

// Eight parts, each written by two of 16 blocks, in `steps` steps a block.
inline std::vector<std::vector<int64_t>> by_blocks(int64_t steps, bool descending = false) {
  std::vector<std::vector<int64_t>> out;
  for (int64_t k = 0; k < 8; ++k) {
    const int64_t first = 2 * (descending ? 7 - k : k);
    out.push_back({first, first + 1, 1, steps});
  }
  return out;
}
// Eight parts through which every one of `blocks` blocks walks in 8 steps.
inline std::vector<std::vector<int64_t>> by_steps(int64_t blocks) {
  std::vector<std::vector<int64_t>> out;
  for (int64_t k = 0; k < 8; ++k) out.push_back({0, blocks - 1, k + 1, k + 1});
  return out;
}

// Two ranks: `produce` writes S, an AllGather on a second stream puts it into G, `consume` reads G;
// `aside` has nothing to do with either. 100 µs each, one after another.
inline TraceBuilder gather_program() {
  TraceBuilder t(2);
  for (int r = 0; r < 2; ++r) {
    const int a = t.space(r, "set 3 buffer A", 8192), s = t.space(r, "cudaMalloc", 4096),
              g = t.space(r, "cudaMalloc", 8192), o = t.space(r, "set 3 buffer O", 4096),
              x = t.space(r, "cudaMalloc", 4096);
    t.add(r, 1, "kernel", "produce(float const*, float*)");
    t.at("candidate.cu:40").takes(0, 100).grid(16, 4).reads(a, 0, 8192);
    t.writes(s, 0, 4096, by_blocks(4), "candidate.cu:12");
    const int64_t record = t.add(r, 1, "event_record", "cudaEventRecord");
    t.takes(100, 100);
    t.add(r, 2, "event_wait", "cudaStreamWaitEvent");
    t.takes(100, 100).after({record});
    t.add(r, 2, "collective", "ncclAllGather");
    t.at("candidate.cu:44").takes(100, 200).reads(s, 0, 4096).writes(g, 0, 8192);
    t.last()["meeting"] = 0;
    t.call({{"name", "ncclAllGather"},
            {"bytes", 4096},
            {"members", {0, 1}},
            {"at", "candidate.cu:44"},
            {"send", TraceBuilder::range(s, 0, 4096)},
            {"recv", TraceBuilder::range(g, 0, 8192)}});
    t.add(r, 2, "kernel", "void consume<4>(float const*, float*)");
    t.at("candidate.cu:46").takes(200, 300).grid(1, 8);
    t.reads(g, 0, 8192, by_steps(1), "candidate.cu:21").writes(o, 0, 4096);
    t.add(r, 2, "kernel", "aside(float*)");
    t.at("candidate.cu:47").takes(300, 400).grid(1, 8).writes(x, 0, 4096);
  }
  return t;
}

}  // namespace sculler::analyze::test
