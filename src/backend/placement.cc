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

struct FreeBitmap {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

Bitmap bitmap_of(const std::vector<int>& numbers) {
  Bitmap out(hwloc_bitmap_alloc());
  for (const int n : numbers) hwloc_bitmap_set(out.get(), static_cast<unsigned>(n));
  return out;
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
  const Bitmap allowed = bitmap_of({});
  if (hwloc_get_cpubind(raw, allowed.get(), HWLOC_CPUBIND_THREAD) == 0) out.keep(allowed.get());
  return out;
}

Topology Topology::synthetic(const std::string& description, const std::vector<int>& allowed) {
  hwloc_topology* raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) fail("hwloc_topology_init");
  Topology out(raw);
  if (hwloc_topology_set_synthetic(raw, description.c_str()) != 0 || hwloc_topology_load(raw) != 0) {
    fail("no topology: \"" + description + "\"");
  }
  out.keep(bitmap_of(allowed).get());
  return out;
}

void Topology::keep(const hwloc_bitmap_s* processors) {
  if (!hwloc_bitmap_iszero(processors)) hwloc_topology_restrict(topology_.get(), processors, 0);
}

int Topology::cores() const { return count(topology_.get(), HWLOC_OBJ_CORE); }
int Topology::processors() const { return count(topology_.get(), HWLOC_OBJ_PU); }

int Topology::numa_nodes() const {
  const std::vector<NumaNode> all = nodes();
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [](const NumaNode& n) { return !n.processors.empty(); }));
}

std::vector<NumaNode> Topology::nodes() const {
  std::vector<NumaNode> out;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology_.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    out.push_back({.number = static_cast<int>(node->os_index),
                   .bytes = static_cast<int64_t>(node->attr->numanode.local_memory),
                   .processors = {}});
    for (int p = -1; (p = hwloc_bitmap_next(node->cpuset, p)) >= 0;) out.back().processors.push_back(p);
  }
  return out;
}

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

std::error_code Topology::interleave(const std::vector<int>& nodes) const {
  constexpr int kFlags = HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_NOCPUBIND;
  errno = 0;
  if (hwloc_set_membind(topology_.get(), bitmap_of(nodes).get(), HWLOC_MEMBIND_INTERLEAVE, kFlags) == 0) return {};
  return {errno == 0 ? ENOSYS : errno, std::generic_category()};
}

bool Topology::has_memory_policy() const {
  hwloc_membind_policy_t policy = HWLOC_MEMBIND_DEFAULT;
  errno = 0;
  const Bitmap nodes = bitmap_of({});
  if (hwloc_get_membind(topology_.get(), nodes.get(), &policy, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) != 0) {
    return errno == EINVAL;  // one that is newer than hwloc; anything else: the question was refused
  }
  return policy != HWLOC_MEMBIND_FIRSTTOUCH && policy != HWLOC_MEMBIND_MIXED;  // the latter of a made-up machine
}

}  // namespace nibble::backend
