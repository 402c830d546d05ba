// What `nibble ops certify` found for one op on one set of kernels.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

#include "ops/certify/certify.h"

namespace nibble::cli {

struct Certified {
  std::string kernels;  // "cpu avx2"
  ops::certify::Report report;
  std::string error;  // why it could not run to its end; empty: it did

  // No error, at least one cell, and every cell within its budget.
  bool passed() const;
};

// The cell that is nearest to its budget or furthest beyond it; one without a number comes first. Null: there is none.
const ops::certify::CellResult* worst_cell(const ops::certify::Report& report);

std::string table_row(const Certified& certified);
nlohmann::ordered_json to_json(const Certified& certified);

}  // namespace nibble::cli
