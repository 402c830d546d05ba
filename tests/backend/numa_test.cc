// Which nodes memory goes to, on made-up machines; and that the system is told so, as far as a machine of any number of
// nodes can show it.
#include "backend/numa.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <barrier>
#include <cstddef>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "backend/open_device.h"
#include "base/error.h"
#include "cpu/cpu_device.h"

namespace nibble::backend {
namespace {

using Numbers = std::vector<int>;
using Planner = MemoryPlan (*)(Numa, const std::vector<NumaNode>&, const MemoryUsers&);

Numbers range(int begin, int end) {
  Numbers out(static_cast<size_t>(end - begin));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

// Threads that are pinned to these processors.
MemoryUsers on(const Numbers& processors) {
  return {.threads = static_cast<int>(processors.size()), .processors = processors};
}

Numbers nodes(const Topology& machine, const MemoryUsers& users, Numa wanted = Numa::kAuto) {
  return plan_memory(wanted, machine.nodes(), users).nodes;
}

TEST(Numa, OfTwoPackagesWithTwoNodesEachThoseOfTheThreads) {
  const Topology machine = Topology::synthetic("pack:2 numa:2 core:4 pu:2");  // 8 processors a node
  EXPECT_EQ(nodes(machine, on(machine.place(16))), range(0, 4));
  EXPECT_EQ(nodes(machine, on(machine.place(4))), range(0, 4));
  EXPECT_EQ(nodes(machine, on(machine.place(2))), (Numbers{0, 2}));
  EXPECT_EQ(nodes(machine, on(range(0, 16))), (Numbers{0, 1}));   // the first package
  EXPECT_EQ(nodes(machine, on(range(16, 32))), (Numbers{2, 3}));  // the second
  EXPECT_EQ(nodes(machine, on({3, 31, 3})), (Numbers{0, 3}));
}

TEST(Numa, OneNodeIsLeftToTheSystem) {
  const Topology one = Topology::synthetic("pack:1 core:4 pu:2"),
                 four = Topology::synthetic("pack:2 numa:2 core:4 pu:2");
  for (const Numa wanted : {Numa::kAuto, Numa::kInterleave}) {
    EXPECT_EQ(nodes(one, on(one.place(8)), wanted), Numbers());
    EXPECT_EQ(nodes(four, on(range(8, 16)), wanted), Numbers());
    EXPECT_EQ(plan_memory(wanted, four.nodes(), on(range(8, 16))).why, "one NUMA node");
    EXPECT_EQ(nodes(four, on({}), wanted), Numbers());
  }
}

TEST(Numa, ThreadsThatMayNotLeaveAPackageHaveItsNodesOnly) {
  const Topology half = Topology::synthetic("pack:2 numa:2 core:4 pu:1", range(8, 16));
  EXPECT_EQ(half.processors(), 8);
  EXPECT_EQ(half.numa_nodes(), 2);
  EXPECT_EQ(nodes(half, on(half.place(8))), (Numbers{2, 3}));
  std::set<int> left;
  for (const NumaNode& node : half.nodes()) left.insert(node.processors.begin(), node.processors.end());
  EXPECT_EQ(left, (std::set<int>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(Numa, NodesWithoutMemoryAreLeftOut) {
  const std::vector<NumaNode> three = {
      {.number = 0, .bytes = 1 << 30, .processors = {0, 1}},
      {.number = 1, .bytes = 0, .processors = {2, 3}},
      {.number = 5, .bytes = 1 << 30, .processors = {4, 5}},
  };
  EXPECT_EQ(plan_memory(Numa::kAuto, three, on(range(0, 6))).nodes, (Numbers{0, 5}));
  EXPECT_EQ(plan_memory(Numa::kAuto, three, on({2, 3, 5, 0})).nodes, (Numbers{0, 5}));
  EXPECT_EQ(plan_memory(Numa::kInterleave, three, on({2, 3, 4})).nodes, Numbers());
  EXPECT_EQ(plan_memory(Numa::kInterleave, three, on({2, 3})).nodes, Numbers());
  // An empty node a core, within a package's node, which then is the nearest that has memory.
  const Topology cores = Topology::synthetic("pack:2 [numa(memory=1GB)] core:2 [numa] pu:1");
  EXPECT_EQ(nodes(cores, on(range(0, 4))), (Numbers{2, 5}));
}

TEST(Numa, MemoryOfAnotherKindIsLeftOut) {
  const Topology hbm = Topology::synthetic("pack:2 [numa(memory=8GB)] [numa(memory=1GB)] core:2 pu:1");
  EXPECT_EQ(hbm.numa_nodes(), 4);
  EXPECT_EQ(nodes(hbm, on(range(0, 4))), (Numbers{0, 2}));
  const std::vector<NumaNode> expander = {
      {.number = 0, .bytes = 1, .processors = {0, 1, 2, 3}},  // of the whole machine
      {.number = 1, .bytes = 1, .processors = {0, 1}},
      {.number = 2, .bytes = 1, .processors = {2, 3}},
  };
  EXPECT_EQ(plan_memory(Numa::kAuto, expander, on(range(0, 4))).nodes, (Numbers{1, 2}));
}

TEST(Numa, WhatAutoLeavesAloneAndInterleaveDoesNot) {
  const Topology machine = Topology::synthetic("numa:2 core:2 pu:1");
  const MemoryUsers free_thread = {.threads = 1, .processors = range(0, 4)};
  const MemoryUsers with_policy = {.threads = 4, .processors = range(0, 4), .has_policy = true};
  for (const MemoryUsers& users : {free_thread, with_policy}) {
    EXPECT_EQ(nodes(machine, users, Numa::kAuto), Numbers());
    EXPECT_EQ(nodes(machine, users, Numa::kInterleave), (Numbers{0, 1}));
    EXPECT_EQ(nodes(machine, users, Numa::kOff), Numbers());
  }
}

// Cases in which `planner` differs from arithmetic: on a machine without empty nodes, processor p lies on node
// p / (processors a node).
int mistakes(Planner planner) {
  std::mt19937 random(20);
  int out = 0;
  for (int i = 0; i < 200; ++i) {
    const auto draw = [&](int most) { return std::uniform_int_distribution(1, most)(random); };
    const int packages = draw(4), each = draw(3), cores = draw(5), hardware = draw(2), width = cores * hardware;
    const int all = packages * each * width;
    const Topology machine = Topology::synthetic("pack:" + std::to_string(packages) + " numa:" + std::to_string(each) +
                                                 " core:" + std::to_string(cores) + " pu:" + std::to_string(hardware));
    Numbers processors = machine.place(draw(all));
    if (i % 2 == 0) processors = range(all - draw(all), all);  // pinned by hand, to the machine's end
    std::set<int> expected;
    for (const int p : processors) expected.insert(p / width);
    if (expected.size() < 2) expected.clear();
    out += planner(Numa::kAuto, machine.nodes(), on(processors)).nodes != Numbers(expected.begin(), expected.end());
  }
  return out;
}

MemoryPlan all_nodes(Numa, const std::vector<NumaNode>& nodes, const MemoryUsers&) {
  MemoryPlan out;
  for (const NumaNode& node : nodes) out.nodes.push_back(node.number);
  if (out.nodes.size() < 2) out.nodes.clear();
  return out;
}
MemoryPlan first_threads_package(Numa wanted, const std::vector<NumaNode>& nodes, const MemoryUsers& users) {
  return plan_memory(wanted, nodes, on({users.processors.front()}));
}
MemoryPlan one_node_too(Numa wanted, const std::vector<NumaNode>& nodes, const MemoryUsers& users) {
  const MemoryPlan out = plan_memory(wanted, nodes, users);
  return out.nodes.empty() ? all_nodes(wanted, nodes, users) : out;
}

TEST(Numa, AgreesWithArithmeticAndWrongPlansDoNot) {
  EXPECT_EQ(mistakes(plan_memory), 0);
  EXPECT_GT(mistakes(all_nodes), 0);
  EXPECT_GT(mistakes(first_threads_package), 0);
  EXPECT_GT(mistakes(one_node_too), 0);
}

TEST(Numa, NamesOfWhatMayBeWanted) {
  EXPECT_EQ(parse_numa("auto"), Numa::kAuto);
  EXPECT_EQ(parse_numa("interleave"), Numa::kInterleave);
  EXPECT_EQ(parse_numa("off"), Numa::kOff);
  for (const char* name : {"", "on", "Auto", "interleave "}) EXPECT_THROW(parse_numa(name), Refusal) << name;
}

// A policy ends with its thread, so each test has one.
template <class Body>
void in_a_thread(const Body& body) {
  std::thread(body).join();
}

// The calling thread's policy, from the system itself; where that says nothing (a container), none can be set.
struct Policy {
  int mode = MPOL_DEFAULT;
  uint64_t nodes[16] = {};  // a bit each
  bool has(int node) const { return (nodes[node / 64] >> (node % 64) & 1) != 0; }
};

Policy policy() {
  Policy out;
  syscall(SYS_get_mempolicy, &out.mode, out.nodes, 64 * std::size(out.nodes), nullptr, 0);
  return out;
}

// What the system says to a policy that it could grant: on most machines yes, in most containers no.
std::error_code answer_of_the_system() {
  std::error_code out;
  in_a_thread([&out] {
    if (syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0) != 0) out = {errno, std::generic_category()};
  });
  return out;
}

TEST(Numa, ThePolicyIsTheThreadsAndOfThoseThatItStarts) {
  const Topology machine = Topology::machine();
  const int node = machine.nodes().front().number;
  const std::error_code answer = answer_of_the_system();
  in_a_thread([&] {
    EXPECT_EQ(policy().mode, MPOL_DEFAULT);
    EXPECT_FALSE(machine.has_memory_policy());
    EXPECT_EQ(machine.interleave({node}), answer);
    EXPECT_EQ(policy().mode, answer ? MPOL_DEFAULT : MPOL_INTERLEAVE);
    EXPECT_EQ(policy().has(node), !answer);
    EXPECT_EQ(machine.has_memory_policy(), !answer);
    in_a_thread([&] { EXPECT_EQ(policy().mode, answer ? MPOL_DEFAULT : MPOL_INTERLEAVE); });
  });
  EXPECT_EQ(policy().mode, MPOL_DEFAULT);
}

// hwloc takes this for the machine while it lives, and passes on to the system what is asked of it.
class InPlaceOfTheMachine {
 public:
  explicit InPlaceOfTheMachine(const std::string& description) {
    setenv("HWLOC_SYNTHETIC", description.c_str(), 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
  }
  ~InPlaceOfTheMachine() {
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_THISSYSTEM");
  }
};

// Processors of which no machine has any, so that affinity takes none away.
std::string two_nodes(int first, int second) {
  return "numa:2(indexes=" + std::to_string(first) + "," + std::to_string(second) + ") core:1 pu:1(indexes=1000,1001)";
}

TEST(Numa, ThreadsOfADeviceHaveThePolicyThatWasSetBeforeItWasOpened) {
  const int node = Topology::machine().nodes().front().number;  // the system takes this one of the two, if no more
  const std::error_code answer = answer_of_the_system();
  for (const Numa wanted : {Numa::kOff, Numa::kAuto, Numa::kInterleave}) {
    in_a_thread([&] {
      const InPlaceOfTheMachine two(two_nodes(node, node + 1));
      const DeviceOptions options = {.threads = 2, .numa = wanted};
      const bool placed = wanted != Numa::kOff && !answer;
      EXPECT_EQ(place_memory(options).empty(), wanted == Numa::kOff || placed);
      const auto device = open_device(options);
      std::barrier both(2);  // so that each of the two threads takes one of the two shares
      Policy seen[2];
      static_cast<cpu::CpuDevice&>(*device).pool().parallel_for(2, [&](int64_t, int64_t, int worker) {
        both.arrive_and_wait();
        seen[worker] = policy();
      });
      for (const Policy& p : seen) {
        EXPECT_EQ(p.mode, placed ? MPOL_INTERLEAVE : MPOL_DEFAULT);
        EXPECT_EQ(p.has(node), placed);
      }
      // For a second model auto finds a policy, and leaves it as it is.
      EXPECT_EQ(planned_memory({.threads = 2, .numa = Numa::kAuto}).nodes.empty(), placed);
      EXPECT_EQ(place_memory(options).empty(), wanted == Numa::kOff || placed);
    });
  }
}

TEST(Numa, AMadeUpMachineTellsTheSystemNothing) {
  in_a_thread([] {
    const Topology made_up = Topology::synthetic("numa:2 core:1 pu:1");
    EXPECT_FALSE(made_up.has_memory_policy());
    EXPECT_EQ(made_up.interleave({0, 1}), std::error_code());
    EXPECT_EQ(policy().mode, MPOL_DEFAULT);
  });
}

TEST(Numa, NodesThatAreNotThereAreRefusedAndAreNoReasonToFail) {
  const std::error_code answer = answer_of_the_system();
  const int error = answer ? answer.value() : EINVAL;
  in_a_thread([error] {
    EXPECT_EQ(Topology::machine().interleave({1000}).value(), EINVAL);  // the machine is not known to have it
    const InPlaceOfTheMachine two(two_nodes(900, 901));
    EXPECT_EQ(place_memory({.threads = 2}),
              "memory stays where the system puts it: to interleave it over NUMA nodes 900, 901 was refused: " +
                  std::generic_category().message(error));
    EXPECT_EQ(policy().mode, MPOL_DEFAULT);
    EXPECT_NE(open_device({.threads = 2}), nullptr);
  });
}

// From now on the calling thread's set_mempolicy fails so, as in a container.
void forbid_policies(uint32_t error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_mempolicy, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0), 0);
}

TEST(Numa, AContainersRefusalIsNoReasonToFail) {
  for (const int error : {EPERM, ENOSYS}) {
    in_a_thread([error] {
      forbid_policies(static_cast<uint32_t>(error));
      const int node = Topology::machine().nodes().front().number;
      EXPECT_EQ(Topology::machine().interleave({node}).value(), error);
      const InPlaceOfTheMachine two(two_nodes(node, node + 1));
      const std::string line = place_memory({.threads = 2}), reason = std::generic_category().message(error);
      EXPECT_TRUE(line.ends_with("was refused: " + reason)) << line;
      EXPECT_EQ(line.find('\n'), line.npos);
      EXPECT_EQ(policy().mode, MPOL_DEFAULT);
    });
  }
}

TEST(Numa, ThreadCountsAreRefusedBeforeMemoryIsPlaced) {
  for (const int threads : {-1, 1025}) {
    EXPECT_THROW(place_memory({.threads = threads}), Refusal);
    EXPECT_THROW(planned_memory({.threads = threads}), Refusal);
  }
  EXPECT_EQ(place_memory({.threads = -1, .numa = Numa::kOff}), "");
}

}  // namespace
}  // namespace nibble::backend
