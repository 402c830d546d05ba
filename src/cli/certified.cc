#include "cli/certified.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace nibble::cli {

using ops::certify::CellResult;

bool Certified::passed() const {
  const auto& cells = report.cells;
  return error.empty() && !cells.empty() &&
         std::all_of(cells.begin(), cells.end(), [](const CellResult& cell) { return cell.passed(); });
}

const CellResult* worst_cell(const ops::certify::Report& report) {
  const CellResult* worst = nullptr;
  // How much of its budget a cell has used. A budget of zero allows no error at all.
  const auto used = [](const CellResult& cell) {
    if (std::isnan(cell.error)) return HUGE_VAL;
    return cell.error == 0.0 ? 0.0 : cell.error / cell.budget;
  };
  for (const CellResult& cell : report.cells) {
    if (worst == nullptr || used(cell) > used(*worst)) worst = &cell;
  }
  return worst;
}

std::string table_row(const Certified& c) {
  const char* verdict = c.passed() ? "ok" : "FAILED";
  const CellResult* worst = worst_cell(c.report);
  if (!c.error.empty() || worst == nullptr) {
    return fmt::format("{:<18} {:<14} {:<6} {}\n", c.report.op, c.kernels, verdict,
                       c.error.empty() ? "no cells" : c.error);
  }
  return fmt::format("{:<18} {:<14} {:<6} {:>5} {:>10.3g} {:>10.3g}  {} ({})\n", c.report.op, c.kernels, verdict,
                     c.report.cells.size(), worst->error, worst->budget, c.report.measure, worst->cell);
}

nlohmann::ordered_json to_json(const Certified& c) {
  nlohmann::ordered_json out = {{"op", c.report.op}, {"kernels", c.kernels}, {"passed", c.passed()}};
  if (!c.error.empty()) out["error"] = c.error;
  if (c.report.measure != nullptr) out["measure"] = c.report.measure;
  out["cells"] = nlohmann::ordered_json::array();
  for (const CellResult& cell : c.report.cells) {
    out["cells"].push_back(
        {{"cell", cell.cell}, {"error", cell.error}, {"budget", cell.budget}, {"passed", cell.passed()}});
  }
  return out;
}

}  // namespace nibble::cli
