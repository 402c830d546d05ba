// Certification: each op, on any device, against its fp64 reference, over one table of cells. The tests, `nibble ops
// certify` and docs/ops.md all read from here.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace nibble {
class Device;
}

namespace nibble::ops::certify {

struct CellResult {
  std::string cell;                                // "T=65 n=7168 bf16"
  double error = 0.0;                              // worst element, in the op's own measure (see Report)
  double budget = 0.0;                             // at most four times the worst error measured over all kernels
  bool passed() const { return error <= budget; }  // a NaN error does not pass
};

struct Report {
  const char* op = nullptr;
  const char* measure = nullptr;  // "relative to the row's largest value", "ulp", "ids that differ"
  std::vector<CellResult> cells = {};
};

struct Entry {
  const char* name;     // as in the kernel table
  const char* summary;  // one line
  Report (*certify)(Device& device);
};

// One entry an op, in the order of the kernel table.
std::span<const Entry> catalog();

}  // namespace nibble::ops::certify
