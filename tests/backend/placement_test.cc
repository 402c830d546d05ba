// Threads on made-up machines: each on a core of its own while there are enough, every package and node with its part.
#include "backend/placement.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

namespace nibble::backend {
namespace {

// How many threads each group of `width` consecutive processors got.
std::map<int, int> groups(const std::vector<int>& processors, int width) {
  std::map<int, int> out;
  for (const int p : processors) ++out[p / width];
  return out;
}

TEST(Placement, CountsWhatTheMachineHas) {
  const Topology two = Topology::synthetic("pack:2 numa:2 core:8 pu:2");
  EXPECT_EQ(two.cores(), 32);
  EXPECT_EQ(two.processors(), 64);
  EXPECT_EQ(two.numa_nodes(), 4);
}

TEST(Placement, AThreadACore) {
  const Topology machine = Topology::synthetic("pack:2 core:8 pu:2");
  const std::vector<int> all = machine.place(16);
  ASSERT_EQ(all.size(), 16u);
  for (const auto& [core, threads] : groups(all, 2)) EXPECT_EQ(threads, 1) << "core " << core;
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));  // neighbours stay neighbours
}

TEST(Placement, FewThreadsAreSpreadOverPackagesAndNodes) {
  const Topology machine = Topology::synthetic("pack:2 numa:4 core:6 pu:2");  // 8 nodes of 6 cores, 12 processors
  for (const int each : {1, 2, 3, 6}) {
    const auto nodes = groups(machine.place(8 * each), 12);
    ASSERT_EQ(nodes.size(), 8u) << each;
    for (const auto& [node, threads] : nodes) EXPECT_EQ(threads, each) << "node " << node;
  }
  EXPECT_EQ(groups(machine.place(2), 48).size(), 2u);  // one a package
}

TEST(Placement, HardwareThreadsOnlyWhereCoresAreUsedUp) {
  const Topology machine = Topology::synthetic("pack:1 core:4 pu:2");
  const std::vector<int> eight = machine.place(8);
  EXPECT_EQ(std::set<int>(eight.begin(), eight.end()).size(), 8u);
  EXPECT_EQ(groups(machine.place(6), 2).size(), 4u);
}

TEST(Placement, MoreThreadsThanProcessorsRepeat) {
  const Topology machine = Topology::synthetic("core:2 pu:1");
  const auto each = groups(machine.place(5), 1);
  ASSERT_EQ(each.size(), 2u);
  EXPECT_EQ(each.at(0) + each.at(1), 5);
  EXPECT_GE(each.at(1), 2);
}

TEST(Placement, RefusesWhatIsNoMachine) { EXPECT_THROW(Topology::synthetic("two cores, please"), std::system_error); }

// Only what this process may use.
TEST(Placement, StaysInsideTheAffinity) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const Topology machine = Topology::machine();
  EXPECT_LE(machine.processors(), CPU_COUNT(&allowed));
  for (const int p : machine.place(2 * machine.processors())) EXPECT_TRUE(CPU_ISSET(p, &allowed)) << p;
}

}  // namespace
}  // namespace nibble::backend
