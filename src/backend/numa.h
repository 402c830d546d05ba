// Which NUMA nodes memory goes to, decided from nothing but what a machine has: pages in turn over the nodes of the
// threads that read them, so that all of their memory channels carry the same load
// (docs/adr/0013-memory-interleaved-over-nodes.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/placement.h"

namespace nibble::backend {

enum class Numa : uint8_t {
  kAuto,        // interleaved where several threads lie on several nodes
  kInterleave,  // interleaved wherever there are several nodes
  kOff,         // where the system puts it
};
Numa parse_numa(const std::string& name);  // "auto", "interleave", "off"; throws Refusal

// The threads that memory is for.
struct MemoryUsers {
  int threads = 1;
  std::vector<int> processors;  // that they may run on: one a thread where they are pinned
  bool has_policy = false;      // whoever started them has said where memory goes
};

struct MemoryPlan {
  std::vector<int> nodes;  // ascending; none: memory is left to the system
  std::string_view why;    // for people
};

// Nodes without memory are left out. Of several nodes near a processor the ordinary one counts, and memory of another
// kind (HBM, CXL) does not: the node with the fewest processors, of these the one with the lowest number.
MemoryPlan plan_memory(Numa wanted, const std::vector<NumaNode>& nodes, const MemoryUsers& users);

}  // namespace nibble::backend
