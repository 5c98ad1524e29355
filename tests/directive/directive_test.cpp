#include "directive/directive.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"

namespace sculler::directive {
namespace {

std::string error_of(std::string_view text) {
  auto parsed = parse_text(text, "d.json");
  return parsed ? "no error" : parsed.error().text();
}

Directive of(Backend backend, Issuer issuer = Issuer::kThread,
             Placement placement = Placement::kSplitPhase, Sync sync = Sync::kGlobal) {
  return {backend, issuer, placement, sync, 0, {}};
}

std::vector<std::string> keys(const Directive& d, const Topology& t) {
  std::vector<std::string> out;
  for (const auto& objection : validate(d, t)) out.push_back(objection.key);
  return out;
}

const Topology kNode{2, 2, true, false, 22809, 1 << 20};

TEST(Directive, ParsesAndPrints) {
  auto parsed = parse_text(
      R"({"backend":"lsa","issuer":"cta","placement":"tile_fused","sync":"tile","granularity":65536,"why":"x"})",
      "d");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(print(*parsed), "lsa cta tile_fused tile");
  EXPECT_EQ(parsed->granularity, 65536);
  EXPECT_EQ(parse(to_json(*parsed), "again"), *parsed);
  EXPECT_EQ(print(*parse_text(R"({"backend":"none"})", "d")), "none");
}

TEST(Directive, ErrorsNameKeyAndNearest) {
  EXPECT_EQ(error_of(R"({"backend":"lsaa"})"),
            "d.json: backend: \"lsaa\" is unknown (did you mean lsa?)");
  EXPECT_EQ(error_of(R"({"issuer":"cta"})"),
            "d.json: backend: is missing (choose one of none, lsa, gin, hybrid)");
  EXPECT_EQ(error_of(R"({"backend":"lsa","isuer":"cta"})"),
            "d.json: isuer: is not a dimension of a directive (did you mean issuer?)");
  EXPECT_EQ(
      error_of(R"({"backend":"lsa","granularity":-1})"),
      "d.json: granularity: -1 is outside 0..1099511627776 (give the bytes of one transfer, or 0)");
  EXPECT_EQ(error_of("[]"),
            "d.json: a directive is an object, array found (write {\"backend\":…})");
  EXPECT_EQ(parse_text("{", "d").error().code, ErrorCode::kBadDirective);
}

TEST(Directive, IsReadFromASource) {
  auto none = from_source("int main() {}\n", "a.cu");
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  auto found = from_source(
      "\n  // sculler:directive {\"backend\":\"gin\"}\n// sculler:directive "
      "{\"backend\":\"lsa\"}\n",
      "a.cu");
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->backend, Backend::kGin);
  EXPECT_EQ(from_source("\n// sculler:directive {\"backend\":3}", "a.cu").error().file, "a.cu:2");
}

TEST(Directive, TopologyForbids) {
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys(of(Backend::kLsa), kNode), Keys{});
  EXPECT_EQ(keys(of(Backend::kGin), kNode), Keys{"backend"});
  EXPECT_EQ(keys(of(Backend::kHybrid), kNode), (Keys{"backend", "backend"}));
  EXPECT_EQ(keys(of(Backend::kLsa), {1, 1, true, false, 22809, 0}), Keys{"backend"});
  EXPECT_EQ(keys(of(Backend::kLsa), {4, 2, true, true, 22809, 0}), Keys{"backend"});
  EXPECT_EQ(keys(of(Backend::kHybrid), {4, 2, true, true, 22809, 0}), Keys{});
  EXPECT_EQ(keys(of(Backend::kLsa), {2, 2, true, false, 22703, 0}), Keys{"backend"});
  EXPECT_EQ(keys(of(Backend::kNone, Issuer::kCta, Placement::kTileFused), kNode),
            Keys{"placement"});
  EXPECT_EQ(keys(of(Backend::kNone, Issuer::kCta, Placement::kSequential), kNode), Keys{});
  EXPECT_EQ(keys(of(Backend::kLsa, Issuer::kCopyEngine, Placement::kTileFused), kNode),
            Keys{"placement"});
  EXPECT_EQ(keys(of(Backend::kLsa, Issuer::kCta, Placement::kStreamOverlap, Sync::kTile), kNode),
            Keys{"sync"});
  Directive large = of(Backend::kLsa);
  large.granularity = 2 << 20;
  EXPECT_EQ(keys(large, kNode), Keys{"granularity"});
  const auto error = check(of(Backend::kGin), kNode, "candidate.cu").error();
  EXPECT_EQ(error.code, ErrorCode::kBadDirective);
  EXPECT_EQ(
      error.text(),
      "candidate.cu: backend: gin needs a GIN plugin or an RDMA NIC, there is none (use lsa)");
}

TEST(Directive, CellsAreDistinctAndInRange) {
  std::set<int> cells;
  for (int b = 0; b < 4; ++b)
    for (int i = 0; i < 4; ++i)
      for (int p = 0; p < 5; ++p)
        for (int s = 0; s < 3; ++s)
          for (const int64_t g : {0, 512, 4096, 1 << 20, 1 << 30}) {
            const int index = cell({Backend(b), Issuer(i), Placement(p), Sync(s), g, {}});
            EXPECT_TRUE(index >= 0 && index < kCells);
            cells.insert(index);
          }
  EXPECT_EQ(cells.size(), static_cast<std::size_t>(kCells));
}

RC_GTEST_PROP(Directive, AnyTextGivesADirectiveOrAnError, (const std::string& text)) {
  auto parsed = parse_text(text, "x");
  RC_ASSERT(parsed.has_value() || !parsed.error().message.empty());
  (void)from_source("// sculler:directive " + text, "x");
}

}  // namespace
}  // namespace sculler::directive
