// Where threads go: one a physical core, spread over the machine's NUMA nodes. And how memory is put on nodes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

struct hwloc_topology;
struct hwloc_bitmap_s;

namespace nibble::backend {

// Memory, and the processors near it.
struct NumaNode {
  int number = 0;     // the system's
  int64_t bytes = 0;  // none where all its slots are empty
  std::vector<int> processors;
};

// The processors that this process may use, and what they share.
class Topology {
 public:
  // This machine, less what the process's affinity forbids. Throws std::system_error.
  static Topology machine();
  // A made-up machine in hwloc's synthetic notation: "pack:2 core:8 pu:2" has two packages of eight cores with two
  // hardware threads each. Less all but `allowed`, where any are named. Throws std::system_error for a text that is no
  // machine.
  static Topology synthetic(const std::string& description, const std::vector<int>& allowed = {});

  int cores() const;                    // physical ones, at least 1
  int processors() const;               // hardware threads, at least 1
  int numa_nodes() const;               // that have processors left
  std::vector<NumaNode> nodes() const;  // of memory that this process may use; those of its processors that are left

  // The processor of each of `threads` threads, in the order of the machine, so that neighbours share caches and
  // memory. While there are cores enough no two threads share one, and every package and NUMA node gets its part of
  // them; beyond that hardware threads are used, and beyond those processors repeat. threads >= 1.
  std::vector<int> place(int threads) const;

  // Has the pages that this thread, and each thread that it starts from then on, is first to touch or to read from a
  // file put on these nodes in turn. Pages that are in memory already stay where they are. On a made-up machine nothing
  // is done. What the system refuses is returned, and then nothing has changed.
  std::error_code interleave(const std::vector<int>& nodes) const;
  // Whether a policy of this kind, or another, is in force for this thread: by interleave(), or by who started the
  // process (numactl).
  bool has_memory_policy() const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  void keep(const hwloc_bitmap_s* processors);
  explicit Topology(hwloc_topology* loaded) : topology_(loaded) {}
  std::unique_ptr<hwloc_topology, Destroy> topology_;
};

}  // namespace nibble::backend
