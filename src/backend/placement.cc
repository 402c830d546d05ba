#include "backend/placement.h"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace nibble::backend {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno == 0 ? EINVAL : errno, std::generic_category(), what);
}

int count(hwloc_topology* topology, hwloc_obj_type_t type) {
  return std::max(1, hwloc_get_nbobjs_by_type(topology, type));
}

}  // namespace

void Topology::Destroy::operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }

Topology Topology::machine() {
  hwloc_topology* raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail("hwloc_topology_init");
  Topology out(raw);
  if (hwloc_topology_load(raw) != 0) fail("hwloc_topology_load");
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (hwloc_get_cpubind(raw, allowed, HWLOC_CPUBIND_THREAD) == 0 && !hwloc_bitmap_iszero(allowed)) {
    hwloc_topology_restrict(raw, allowed, 0);
  }
  hwloc_bitmap_free(allowed);
  return out;
}

Topology Topology::synthetic(const std::string& description) {
  hwloc_topology* raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail("hwloc_topology_init");
  Topology out(raw);
  if (hwloc_topology_set_synthetic(raw, description.c_str()) != 0 || hwloc_topology_load(raw) != 0) {
    fail("no topology: \"" + description + "\"");
  }
  return out;
}

int Topology::cores() const { return count(topology_.get(), HWLOC_OBJ_CORE); }
int Topology::processors() const { return count(topology_.get(), HWLOC_OBJ_PU); }
int Topology::numa_nodes() const { return count(topology_.get(), HWLOC_OBJ_NUMANODE); }

std::vector<int> Topology::place(int threads) const {
  hwloc_topology* topology = topology_.get();
  std::vector<int> out;
  while (static_cast<int>(out.size()) < threads) {  // one round but where there are more threads than processors
    const int here = std::min(threads - static_cast<int>(out.size()), processors());
    std::vector<hwloc_bitmap_t> sets(static_cast<size_t>(here));  // hwloc_distrib makes them
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    // Not below cores while these are enough: else hwloc would give one core's hardware threads to two.
    const int depth = here <= cores() ? hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE)
                                      : hwloc_get_type_depth(topology, HWLOC_OBJ_PU);
    hwloc_distrib(topology, &root, 1, sets.data(), static_cast<unsigned>(here), depth, 0);
    for (hwloc_bitmap_t set : sets) {
      out.push_back(hwloc_bitmap_first(set));
      hwloc_bitmap_free(set);
    }
  }
  return out;
}

}  // namespace nibble::backend
