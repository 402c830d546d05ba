#include "backend/numa.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"

namespace nibble::backend {
namespace {

const NumaNode* nearest_node(const std::vector<NumaNode>& nodes, int processor) {
  const NumaNode* best = nullptr;
  for (const NumaNode& node : nodes) {
    const std::vector<int>& near = node.processors;
    if (node.bytes == 0 || std::find(near.begin(), near.end(), processor) == near.end()) continue;
    const auto rank = [](const NumaNode& n) { return std::pair(n.processors.size(), n.number); };
    if (best == nullptr || rank(node) < rank(*best)) best = &node;
  }
  return best;
}

}  // namespace

Numa parse_numa(const std::string& name) {
  if (name == "auto") return Numa::kAuto;
  if (name == "interleave") return Numa::kInterleave;
  if (name == "off") return Numa::kOff;
  throw Refusal({.what = "numa " + name,
                 .seen = "\"" + name + "\"",
                 .rule = "memory goes to the threads' NUMA nodes in turn (interleave), where the system puts it (off), "
                         "or auto",
                 .fix = "auto, interleave or off"});
}

MemoryPlan plan_memory(Numa wanted, const std::vector<NumaNode>& nodes, const MemoryUsers& users) {
  if (wanted == Numa::kOff) return {.nodes = {}, .why = "not asked for"};
  std::set<int> used;
  for (const int processor : users.processors) {
    if (const NumaNode* node = nearest_node(nodes, processor)) used.insert(node->number);
  }
  if (used.size() < 2) return {.nodes = {}, .why = "one NUMA node"};
  if (wanted == Numa::kAuto && users.threads < 2) return {.nodes = {}, .why = "one thread, on one NUMA node at a time"};
  if (wanted == Numa::kAuto && users.has_policy) return {.nodes = {}, .why = "a policy was set from outside (numactl)"};
  return {.nodes = {used.begin(), used.end()}, .why = "the threads' NUMA nodes, page by page"};
}

}  // namespace nibble::backend
