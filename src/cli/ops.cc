// `nibble ops`: which kernels there are, and whether they compute what their contracts say on this machine.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>

#include "backend/device_name.h"
#include "backend/open_device.h"
#include "base/error.h"
#include "cli/certified.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output.h"
#include "cli/suggest.h"
#include "ops/kernel_table.h"

namespace nibble::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  ModelOptions device;
  std::vector<std::string> ops;
  bool json = false;
};

// Op -> whether the table has a kernel for it.
std::map<std::string, bool> entries(const ops::KernelTable& table) {
  std::map<std::string, bool> out;
  ops::for_each_kernel([&]<auto Member>(const char* name) { out[name] = table.*Member != nullptr; });
  return out;
}

void list(bool json) {
  const std::vector<backend::KernelSet> sets = backend::kernel_sets();
  ordered_json rows = ordered_json::array();
  std::string table = fmt::format("{:<18} {:<52} kernels\n", "op", "");
  for (const ops::certify::Entry& entry : ops::certify::catalog()) {
    ordered_json kernels = ordered_json::array();
    std::string names;
    for (const backend::KernelSet& set : sets) {
      if (!entries(*set.kernels).at(entry.name)) continue;
      kernels.push_back({{"device", set.device}, {"isa", set.isa}, {"available", set.available}});
      names += fmt::format("{}{} {}{}", names.empty() ? "" : ", ", set.device, set.isa, set.available ? "" : "*");
    }
    table += fmt::format("{:<18} {:<52} {}\n", entry.name, entry.summary, names);
    rows.push_back({{"op", entry.name}, {"summary", entry.summary}, {"kernels", kernels}});
  }
  if (json) {
    print(rows.dump() + "\n");
    return;
  }
  print(table);
  for (const backend::KernelSet& set : sets) {
    if (!set.available) print(fmt::format("* not on this machine: {} {} needs {}\n", set.device, set.isa, set.needs));
  }
}

// The entries that were asked for, in the catalog's order.
std::vector<ops::certify::Entry> chosen(const std::vector<std::string>& wanted) {
  const auto catalog = ops::certify::catalog();
  std::vector<std::string> names;
  for (const ops::certify::Entry& entry : catalog) names.emplace_back(entry.name);
  for (const std::string& name : wanted) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string meant = nearest(name, names);
    throw Refusal({.what = "--op " + name,
                   .seen = "no such op",
                   .rule = "ops are those of nibble ops list",
                   .fix = "--op " + (meant.empty() ? names.front() : meant)});
  }
  std::vector<ops::certify::Entry> out;
  for (const ops::certify::Entry& entry : catalog) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), entry.name) != wanted.end()) out.push_back(entry);
  }
  return out;
}

Certified certify_one(const ops::certify::Entry& entry, Device& device) {
  Certified out{.kernels = std::string(device.name()), .report = {.op = entry.name}, .error = {}};
  try {
    out.report = entry.certify(device);
  } catch (const std::exception& error) {
    out.error = error.what();
  }
  return out;
}

void certify(const Options& o) {
  const std::vector<ops::certify::Entry> entries = chosen(o.ops);
  std::vector<std::unique_ptr<Device>> devices;
  if (!o.device.isa.empty() || !o.device.require.empty()) {
    devices.push_back(open_device(o.device));
  } else {
    const std::string kind = backend::parse_device(o.device.device).kind;
    for (const backend::KernelSet& set : backend::kernel_sets()) {
      if (!set.available || (kind != "auto" && set.device != kind)) continue;
      ModelOptions with = o.device;
      if (kind == "auto") with.device = set.device;
      if (set.device == "cpu") with.isa = set.isa;
      devices.push_back(open_device(with));
    }
    if (devices.empty()) open_device(o.device);  // for what it refuses
  }
  bool passed = true;
  ordered_json rows = ordered_json::array();
  if (!o.json) {
    print(fmt::format("{:<18} {:<14} {:<6} {:>5} {:>10} {:>10}  {}\n", "op", "kernels", "", "cells", "error", "budget",
                      "measure (worst cell)"));
  }
  for (const std::unique_ptr<Device>& device : devices) {
    for (const ops::certify::Entry& entry : entries) {
      const Certified result = certify_one(entry, *device);
      passed = passed && result.passed();
      if (o.json) {
        rows.push_back(to_json(result));
      } else {
        print(table_row(result));
        flush_output();
      }
    }
  }
  if (o.json) print(ordered_json{{"passed", passed}, {"reports", rows}}.dump() + "\n");
  if (!passed) throw CLI::RuntimeError(kFailed);
}

}  // namespace

void add_ops(CLI::App& app) {
  CLI::App* ops = app.add_subcommand("ops", "The catalog of operations and their kernels");
  ops->require_subcommand(1);
  const auto o = std::make_shared<Options>();

  CLI::App* listing = ops->add_subcommand("list", "Each op and the kernels that this build has for it");
  listing->add_flag("--json", o->json, "Print one JSON array");
  listing->callback([o] { list(o->json); });

  CLI::App* certification = ops->add_subcommand("certify", "Run each op against its fp64 reference on this machine");
  certification->add_option("--op", o->ops, "Only this one; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  add_device_options(*certification, o->device);
  certification->add_flag("--json", o->json, "Print one JSON object, with every cell");
  certification->callback([o] { certify(*o); });
}

}  // namespace nibble::cli
