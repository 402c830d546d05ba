#include "backend/open_device.h"

#include <numeric>
#include <system_error>

#include "backend/device_name.h"
#include "backend/placement.h"
#include "base/error.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#ifdef NIBBLE_CUDA
#include "cuda/architecture.h"
#include "cuda/cuda_device.h"
#include "cuda/kernels/kernels.h"
#endif

namespace nibble::backend {
namespace {

constexpr int kMaxThreads = 1024;  // beyond any machine; a larger number is a slip of the keyboard

const cpu::Isa& choose_isa(const std::string& wanted) {
  if (wanted.empty()) return cpu::best_isa();
  std::string known;
  for (const cpu::Isa& isa : cpu::instruction_sets()) {
    known += (known.empty() ? "" : ", ") + std::string(isa.name);
    if (isa.name != wanted) continue;
    if (isa.available) return isa;
    throw Refusal({.what = "isa " + wanted,
                   .seen = "a processor without it",
                   .rule = "these kernels need " + std::string(isa.needs),
                   .fix = "isa " + std::string(cpu::best_isa().name) + ", the best of this machine"});
  }
  throw Refusal({.what = "isa " + wanted,
                 .seen = "this build has " + known,
                 .rule = "an instruction set is chosen by its name",
                 .fix = "one of " + known + ", or none for the best of this machine"});
}

#ifdef NIBBLE_CUDA
bool cuda_available() { return cuda::usable(0); }

std::unique_ptr<Device> open_cuda(const DeviceOptions& options, int index) {
  if (!options.isa.empty()) {
    throw Refusal({.what = "isa " + options.isa,
                   .seen = "device " + options.device,
                   .rule = "instruction sets are the CPU's; a GPU's kernels are those of its architecture",
                   .fix = "no isa, or device cpu"});
  }
  return std::make_unique<cuda::CudaDevice>(index);
}
#else
bool cuda_available() { return false; }

std::unique_ptr<Device> open_cuda(const DeviceOptions& options, int) {
  throw Refusal({.what = "device " + options.device,
                 .seen = "this build has cpu",
                 .rule = "a device must be one that the build has kernels for; cuda is built with -DNIBBLE_CUDA=ON",
                 .fix = "device cpu, or a build with cuda (docs/gpu.md)"});
}
#endif

bool wants_cuda(const DeviceOptions& options) {
  const DeviceName name = parse_device(options.device);
  return name.kind == "cuda" || (name.kind == "auto" && options.isa.empty() && cuda_available());
}

int count_threads(const DeviceOptions& options, const Topology& machine) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    throw Refusal({.what = "threads " + std::to_string(options.threads),
                   .seen = std::to_string(machine.cores()) + " cores for this process",
                   .rule = "1 to " + std::to_string(kMaxThreads) + ", or 0 for one a core",
                   .fix = "threads 0"});
  }
  return options.threads == 0 ? machine.cores() : options.threads;
}

std::vector<int> pinned_processors(const DeviceOptions& options, const Topology& machine) {
  const bool whole = options.threads == 0 && machine.numa_nodes() > 1;
  if (options.pinning == Pinning::kOff || (options.pinning == Pinning::kAuto && !whole)) return {};
  return machine.place(count_threads(options, machine));
}

MemoryPlan planned_memory(const DeviceOptions& options, const Topology& machine) {
  MemoryUsers users = {.threads = count_threads(options, machine),
                       .processors = pinned_processors(options, machine),
                       .has_policy = machine.has_memory_policy()};
  const std::vector<NumaNode> nodes = machine.nodes();
  if (users.processors.empty()) {  // they may be moved to any
    for (const NumaNode& node : nodes) {
      users.processors.insert(users.processors.end(), node.processors.begin(), node.processors.end());
    }
  }
  return plan_memory(options.numa, nodes, users);
}

}  // namespace

Pinning parse_pinning(const std::string& name) {
  if (name == "auto") return Pinning::kAuto;
  if (name == "on") return Pinning::kOn;
  if (name == "off") return Pinning::kOff;
  throw Refusal({.what = "pinning " + name,
                 .seen = "\"" + name + "\"",
                 .rule = "threads stay on processors of their own (on), go where the system puts them (off), or auto",
                 .fix = "auto, on or off"});
}

int physical_cores() { return Topology::machine().cores(); }

std::vector<int> pinned_processors(const DeviceOptions& options) {
  return pinned_processors(options, Topology::machine());
}

MemoryPlan planned_memory(const DeviceOptions& options) {
  if (wants_cuda(options)) return {.nodes = {}, .why = "a GPU has memory of its own"};
  return planned_memory(options, Topology::machine());
}

std::string place_memory(const DeviceOptions& options) {
  if (options.numa == Numa::kOff || wants_cuda(options)) return {};
  const Topology machine = Topology::machine();
  const std::vector<int> nodes = planned_memory(options, machine).nodes;
  if (nodes.empty()) return {};
  const std::error_code error = machine.interleave(nodes);
  if (!error) return {};
  const std::string names = std::accumulate(
      nodes.begin(), nodes.end(), std::string(),
      [](const std::string& list, int node) { return list + (list.empty() ? "" : ", ") + std::to_string(node); });
  return "memory stays where the system puts it: to interleave it over NUMA nodes " + names +
         " was refused: " + error.message();
}

std::vector<KernelSet> kernel_sets() {
  std::vector<KernelSet> sets;
  for (const cpu::Isa& isa : cpu::instruction_sets()) {
    sets.push_back({"cpu", isa.name, isa.kernels, isa.available, isa.needs});
  }
#ifdef NIBBLE_CUDA
  for (const cuda::Architecture& a : cuda::architectures()) {
    if (a.certified) sets.push_back({"cuda", a.name, &cuda::kKernels, cuda::usable(0, &a), a.chips});
  }
#endif
  return sets;
}

std::unique_ptr<Device> open_device(const DeviceOptions& options) {
  if (wants_cuda(options)) return open_cuda(options, parse_device(options.device).index);
  const Topology machine = Topology::machine();
  const int threads = count_threads(options, machine);
  return std::make_unique<cpu::CpuDevice>(*choose_isa(options.isa).kernels, threads,
                                          pinned_processors(options, machine));
}

}  // namespace nibble::backend
