#include "cli/certified.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>

namespace nibble::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Certified certified(std::vector<ops::certify::CellResult> cells, std::string error = "") {
  return {.kernels = "cpu test",
          .report = {.op = "add", .measure = "of the largest", .cells = std::move(cells)},
          .error = std::move(error)};
}

TEST(Certified, PassesOnlyWhereEveryCellDoes) {
  EXPECT_TRUE(certified({{"a", 1e-3, 1e-3}, {"b", 0.0, 0.0}}).passed());
  EXPECT_FALSE(certified({{"a", 0.0, 1e-3}, {"b", 1e-9, 0.0}}).passed());
  EXPECT_FALSE(certified({{"a", kNan, 1.0}}).passed());
  EXPECT_FALSE(certified({}).passed());
  EXPECT_FALSE(certified({{"a", 0.0, 1.0}}, "threw").passed());
}

TEST(Certified, ShowsTheWorstCell) {
  const Certified near = certified({{"far", 1e-4, 1.0}, {"near", 9e-7, 1e-6}});
  EXPECT_EQ(worst_cell(near.report)->cell, "near");
  EXPECT_EQ(worst_cell(certified({{"a", 2.0, 1.0}, {"b", kNan, 1.0}, {"c", 3.0, 1.0}}).report)->cell, "b");
  EXPECT_EQ(worst_cell(certified({}).report), nullptr);
  EXPECT_NE(table_row(near).find("ok"), std::string::npos);
  EXPECT_NE(table_row(certified({{"a", 2.0, 1.0}})).find("FAILED"), std::string::npos);
  EXPECT_NE(table_row(certified({}, "why")).find("FAILED why"), std::string::npos);
}

TEST(Certified, JsonHasEveryCell) {
  const auto json = to_json(certified({{"a", 0.5, 1.0}, {"b", kNan, 1.0}}));
  EXPECT_EQ(
      json.dump(),
      R"({"op":"add","kernels":"cpu test","passed":false,"measure":"of the largest","cells":[)"
      R"({"cell":"a","error":0.5,"budget":1.0,"passed":true},{"cell":"b","error":null,"budget":1.0,"passed":false}]})");
}

}  // namespace
}  // namespace nibble::cli
