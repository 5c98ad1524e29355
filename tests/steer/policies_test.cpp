// Runs policies.txt: small traces with the contents worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "steer/buffer.h"

namespace {

using namespace sculler::steer;
using Ids = std::vector<uint64_t>;

Ids ids_of(const std::string& text) {
  Ids out;
  std::istringstream in(text);
  for (std::string word; in >> word;)
    if (word != "-") out.push_back(std::stoull(word));
  return out;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, '>');) out.push_back(part);
  return out;
}

Ids contents(Buffer& buffer) {
  Ids out;
  for (uint64_t s = 0; s < buffer.capacity(); ++s)
    if (buffer.id(static_cast<uint32_t>(s)) != kNoId)
      out.push_back(buffer.id(static_cast<uint32_t>(s)));
  return out;
}

class Case {
 public:
  void step(const std::string& word, const std::string& rest) {
    const auto parts = parts_of(rest);
    if (word == "policy") {
      settings_.policy = rest.substr(rest.find_first_not_of(' '));
    } else if (word == "capacity") {
      settings_.capacity = std::stoull(rest);
    } else if (word == "batch") {
      ASSERT_GE(parts.size(), 3U);
      const Ids ids = ids_of(parts[0]);
      const auto plan = buffer().minibatch(ids);
      ASSERT_TRUE(plan);
      Ids hits, extra((*plan)->extra().begin(), (*plan)->extra().end());
      for (size_t i = 0; i < ids.size(); ++i)
        if ((*plan)->slot()[i] != kNone) hits.push_back(ids[i]);
      EXPECT_THAT(hits, testing::UnorderedElementsAreArray(ids_of(parts[1]))) << "hits";
      EXPECT_THAT(extra, testing::UnorderedElementsAreArray(
                             ids_of(parts.size() > 3 ? parts[3] : std::string())))
          << "rows fetched unasked";
      holds(parts[2]);
    } else if (word == "preload") {
      ASSERT_TRUE(buffer().preload(ids_of(parts.at(0))));
      holds(parts.at(1));
    } else if (word == "limit") {
      buffer().set_limit(std::stoull(parts.at(0)));
      holds(parts.at(1));
    } else if (word == "drop") {
      buffer().invalidate(ids_of(parts.at(0)));
      holds(parts.at(1));
    } else if (word == "schedule") {
      ASSERT_TRUE(buffer().schedule(ids_of(rest)));
    } else if (word == "replace") {
      buffer().replace();
    } else if (word == "rows" || word == "decay") {
      Knobs knobs = buffer().knobs();
      if (word == "rows") knobs.rows = std::stoull(rest);
      if (word == "decay") knobs.decay = std::stod(rest);
      ASSERT_TRUE(buffer().set_knobs(knobs));
    } else if (word == "switch") {
      const auto ok = buffer().set_policy(rest.substr(rest.find_first_not_of(' ')));
      ASSERT_TRUE(ok) << ok.error().text();
    } else {
      FAIL() << "no such word: " << word;
    }
  }

 private:
  Buffer& buffer() {
    if (!buffer_) {
      auto made = Buffer::make(settings_);
      if (!made) throw std::runtime_error(made.error().text());
      buffer_ = std::move(*made);
    }
    return *buffer_;
  }
  void holds(const std::string& text) {
    EXPECT_THAT(contents(buffer()), testing::UnorderedElementsAreArray(ids_of(text))) << "holds";
  }

  BufferSettings settings_;
  std::unique_ptr<Buffer> buffer_;
};

TEST(Policies, HoldWhatWasWorkedOutByHand) {
  const std::string path = std::string(SCULLER_SOURCE_DIR) + "/tests/steer/policies.txt";
  std::ifstream in(path);
  ASSERT_TRUE(in) << path;
  std::unique_ptr<Case> now;
  int number = 0, cases = 0;
  std::string name;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    SCOPED_TRACE(path + ":" + std::to_string(number) + ": " + name);
    if (line.starts_with("== ")) {
      name = line.substr(3);
      now = std::make_unique<Case>();
      ++cases;
      continue;
    }
    ASSERT_NE(now, nullptr);
    const auto blank = line.find(' ');
    now->step(line.substr(0, blank), blank == std::string::npos ? "" : line.substr(blank));
  }
  EXPECT_GE(cases, 18);
}

TEST(Policies, SpecificationsThatAreWrongSaySo) {
  for (const char* wrong : {"", "lruu", "lru:3", "free:2", "free:x", "free:nan", "known:0",
                            "known:-1", "rudder:", "massivegnn:1.5", "none:"}) {
    const auto made = make_policy(wrong, 4, {});
    ASSERT_FALSE(made) << wrong;
    EXPECT_EQ(made.error().code, sculler::ErrorCode::kUsage);
    EXPECT_FALSE(made.error().message.empty());
  }
  for (const auto& known : policy_names())
    EXPECT_TRUE(make_policy(known.name, 4, {})) << known.name;
}

}  // namespace
