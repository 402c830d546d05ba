// Where threads go: one a physical core, spread over the machine's NUMA nodes.
#pragma once

#include <memory>
#include <string>
#include <vector>

struct hwloc_topology;

namespace nibble::backend {

// The processors that this process may use, and what they share.
class Topology {
 public:
  // This machine, less what the process's affinity forbids. Throws std::system_error.
  static Topology machine();
  // A made-up machine in hwloc's synthetic notation: "pack:2 core:8 pu:2" has two packages of eight cores with two
  // hardware threads each. Throws std::system_error for a text that is none.
  static Topology synthetic(const std::string& description);

  int cores() const;       // physical ones, at least 1
  int processors() const;  // hardware threads, at least 1
  int numa_nodes() const;

  // The processor of each of `threads` threads, in the order of the machine, so that neighbours share caches and
  // memory. While there are cores enough no two threads share one, and every package and NUMA node gets its part of
  // them; beyond that hardware threads are used, and beyond those processors repeat. threads >= 1.
  std::vector<int> place(int threads) const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  explicit Topology(hwloc_topology* loaded) : topology_(loaded) {}
  std::unique_ptr<hwloc_topology, Destroy> topology_;
};

}  // namespace nibble::backend
