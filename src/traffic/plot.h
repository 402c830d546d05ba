// Line charts as SVG, side by side: enough for a few series of a few points.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nibble::traffic {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  // Both axes are logarithmic (base 2 and 10) where all values are above zero; y begins at zero otherwise.
  bool log_x = false, log_y = false;
};

// A bar a name, as long as its share; 1 is marked, and longer ones end at 1.2.
struct Bar {
  std::string name;
  double share = 0.0;
};
std::string bars_to_svg(const std::string& title, const std::vector<Bar>& bars);

// A whole file. Charts without points are left empty.
std::string to_svg(const std::string& title, const std::vector<Chart>& charts);

}  // namespace nibble::traffic
