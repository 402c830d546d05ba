#include "traffic/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace nibble::traffic {
namespace {

constexpr double kWidth = 460, kHeight = 340, kLeft = 64, kRight = 16, kTop = 40, kBottom = 76, kHead = 34;
// Told apart by people who do not see red and green alike (Okabe and Ito).
constexpr std::array<const char*, 6> kColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

template <class... T>
std::string format(const char* pattern, T... values) {
  char text[512];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more) + escaped(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* color) {
  return format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, color);
}

// Values to pixels along one side of a chart.
class Axis {
 public:
  Axis(double low, double high, double from, double to, double log_base) : from_(from), to_(to), base_(log_base) {
    if (base_ > 0.0) {
      low_ = std::floor(scaled(low) + 1e-9);
      high_ = std::max(low_ + 1.0, std::ceil(scaled(high) - 1e-9));
      for (double t = low_; t <= high_ + 1e-9; t += std::max(1.0, std::ceil((high_ - low_) / 8))) {
        ticks_.push_back(std::pow(base_, t));
      }
      return;
    }
    const double rough = std::max(high - low, 1e-9) / 5, power = std::pow(10.0, std::floor(std::log10(rough)));
    const double step = power * (rough / power <= 1.0   ? 1.0
                                 : rough / power <= 2.0 ? 2.0
                                 : rough / power <= 5.0 ? 5.0
                                                        : 10.0);
    low_ = std::floor(low / step) * step;
    high_ = std::max(std::ceil(high / step - 1e-9) * step, low_ + step);
    for (double t = low_; t <= high_ + step / 2; t += step) ticks_.push_back(t);
  }
  double at(double value) const { return from_ + (to_ - from_) * (scaled(value) - low_) / (high_ - low_); }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double scaled(double value) const { return base_ > 0.0 ? std::log(value) / std::log(base_) : value; }
  double from_, to_, base_, low_ = 0, high_ = 1;
  std::vector<double> ticks_;
};

std::string draw(const Chart& chart, double left, double top) {
  std::string out = text_at(left + kWidth / 2, top + 22, "middle", chart.title, " font-weight=\"bold\"");
  double x_low = HUGE_VAL, x_high = -HUGE_VAL, y_low = HUGE_VAL, y_high = -HUGE_VAL;
  for (const Series& s : chart.series) {
    for (const auto& [x, y] : s.points) {
      x_low = std::min(x_low, x), x_high = std::max(x_high, x);
      y_low = std::min(y_low, y), y_high = std::max(y_high, y);
    }
  }
  if (x_low > x_high) return out;
  const double x0 = left + kLeft, x1 = left + kWidth - kRight, y0 = top + kHeight - kBottom, y1 = top + kTop;
  const bool log_y = chart.log_y && y_low > 0.0;
  const Axis x(x_low, x_high, x0, x1, chart.log_x && x_low > 0.0 ? 2.0 : 0.0);
  const Axis y(log_y ? y_low : std::min(0.0, y_low), y_high, y0, y1, log_y ? 10.0 : 0.0);
  for (const double t : y.ticks()) {
    out += line(x0, y.at(t), x1, y.at(t), "#ddd") + text_at(x0 - 6, y.at(t) + 4, "end", format("%.6g", t));
  }
  for (const double t : x.ticks()) {
    out += line(x.at(t), y0, x.at(t), y0 + 4, "#444") + text_at(x.at(t), y0 + 17, "middle", format("%.6g", t));
  }
  out += line(x0, y0, x1, y0, "#444") + line(x0, y0, x0, y1, "#444");
  out += text_at((x0 + x1) / 2, y0 + 34, "middle", chart.x_label);
  const std::string turn = format(" transform=\"rotate(-90 %.1f %.1f)\"", left + 14, (y0 + y1) / 2);
  out += text_at(left + 14, (y0 + y1) / 2, "middle", chart.y_label, turn.c_str());
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const char* color = kColors[i % kColors.size()];
    std::string points, dots;
    for (const auto& [px, py] : chart.series[i].points) {
      points += format("%.1f,%.1f ", x.at(px), y.at(py));
      dots += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x.at(px), y.at(py), color);
    }
    out +=
        format("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", color) + points + "\"/>\n" + dots;
    const double key = x0 + static_cast<double>(i) * (x1 - x0) / static_cast<double>(chart.series.size());
    out += format("<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"4\" fill=\"%s\"/>\n", key, y0 + 52, color);
    out += text_at(key + 16, y0 + 58, "start", chart.series[i].name);
  }
  return out;
}

}  // namespace

std::string to_svg(const std::string& title, const std::vector<Chart>& charts) {
  const double width = kWidth * static_cast<double>(std::max<size_t>(1, charts.size())), height = kHeight + kHead;
  std::string out = format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" ", width, height);
  out += format("viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n", width, height);
  out += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  out += text_at(width / 2, 22, "middle", title, " font-size=\"14\"");
  for (size_t i = 0; i < charts.size(); ++i) out += draw(charts[i], kWidth * static_cast<double>(i), kHead);
  return out + "</svg>\n";
}

std::string bars_to_svg(const std::string& title, const std::vector<Bar>& bars) {
  constexpr double kMost = 1.2, kNames = 160, kStep = 26, kThick = 16;
  const double one = (kWidth - kRight) / kMost, width = kNames + kWidth;
  const double bottom = kHead + kStep * static_cast<double>(bars.size()), height = bottom + 40;
  std::string out = format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" ", width, height);
  out += format("viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\">\n", width, height);
  out += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  out += text_at(width / 2, 22, "middle", title, " font-size=\"14\"");
  for (int percent = 0; percent <= 100; percent += 25) {
    const double x = kNames + one * percent / 100;
    out += line(x, kHead, x, bottom, percent == 100 ? "#d55e00" : "#dddddd");
    out += text_at(x, bottom + 18, "middle", format("%d %%", percent));
  }
  for (size_t i = 0; i < bars.size(); ++i) {
    const double y = kHead + kStep * static_cast<double>(i) + (kStep - kThick) / 2;
    const double length = one * std::min(std::max(bars[i].share, 0.0), kMost);
    out += format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", kNames, y, length,
                  kThick, kColors[0]);
    out += text_at(kNames - 8, y + 12, "end", bars[i].name);
    out += text_at(kNames + 6, y + 12, "start", format("%.0f %%", 100 * bars[i].share), " fill=\"white\"");
  }
  return out + "</svg>\n";
}

}  // namespace nibble::traffic
