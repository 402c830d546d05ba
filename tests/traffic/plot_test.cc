#include "traffic/plot.h"

#include <gtest/gtest.h>

namespace nibble::traffic {
namespace {

size_t count(const std::string& text, const std::string& word) {
  size_t out = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++out;
  return out;
}

const Chart kChart = {.title = "a < b & \"c\"",
                      .x_label = "x",
                      .y_label = "y",
                      .series = {{.name = "one", .points = {{1, 10}, {4, 1000}, {64, 100}}},
                                 {.name = "two", .points = {{1, 20}, {64, 2000}}}},
                      .log_x = true,
                      .log_y = true};

TEST(Plot, HasALineASeriesAndADotAPoint) {
  const std::string svg = to_svg("t", {kChart, kChart});
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_EQ(count(svg, "<polyline "), 4u);
  EXPECT_EQ(count(svg, "<circle "), 10u);
  EXPECT_EQ(count(svg, "<text "), count(svg, "</text>"));
  EXPECT_NE(svg.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

// Logarithmic: 4 is a third of the way from 1 to 64, and 100 half of the way from 10 to 1000.
TEST(Plot, ScalesAreLogarithmicWhereAsked) {
  Chart chart = kChart;
  chart.series.resize(1);
  const std::string svg = to_svg("t", {chart});
  EXPECT_NE(svg.find("64.0,298.0 190.7,74.0 444.0,186.0"), std::string::npos) << svg;
  chart.log_x = chart.log_y = false;
  EXPECT_EQ(to_svg("t", {chart}).find("190.7,"), std::string::npos);
}

TEST(Plot, NothingToDrawAndOnePoint) {
  EXPECT_EQ(count(to_svg("t", {}), "<polyline"), 0u);
  EXPECT_EQ(count(to_svg("t", {{.title = "empty", .x_label = {}, .y_label = {}, .series = {}}}), "<polyline"), 0u);
  for (const bool log : {false, true}) {
    const Chart one{.title = "",
                    .x_label = "",
                    .y_label = "",
                    .series = {{.name = "s", .points = {{5, 0}}}},
                    .log_x = log,
                    .log_y = log};
    const std::string svg = to_svg("t", {one});
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_EQ(count(svg, "<circle"), 1u);
  }
}

TEST(Plot, ABarIsAsLongAsItsShare) {
  const std::string svg = bars_to_svg("a < b", {{"one", 0.25}, {"two", 0.5}, {"three", 9.0}});
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("width=\"92.5\""), std::string::npos) << svg;  // a quarter of 370
  EXPECT_NE(svg.find("width=\"185.0\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("width=\"444.0\""), std::string::npos) << svg;  // cut off
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find(">900 %<"), std::string::npos);
}

}  // namespace
}  // namespace nibble::traffic
