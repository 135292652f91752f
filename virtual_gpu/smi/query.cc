// nvidia-smi's queries, as comma-separated values.
//
// Names of fields and their units: `nvidia-smi --help-query-gpu` of driver 580.

#include <algorithm>
#include <functional>
#include <vector>

#include "virtual_gpu/smi/report.h"

namespace vrank::smi {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr const char* kUnknown = "[N/A]";

// Of a field: its names, the first of which the header shows; what a value is counted
// in; and the value. Without one it is not modelled.
template <typename Of>
struct Field {
  std::vector<std::string_view> names;
  std::string_view unit;
  std::function<std::string(const Of&)> value;
};

std::string MiB(uint64_t bytes) {
  return std::to_string(bytes / kMiB);
}

std::vector<Field<Gpu>> GpuFields(const Machine& machine, std::string_view now) {
  return {
      {{"index"}, "", [](const Gpu& gpu) { return std::to_string(gpu.index); }},
      {{"name", "gpu_name"}, "", [](const Gpu& gpu) { return gpu.name; }},
      {{"uuid", "gpu_uuid"}, "", [](const Gpu& gpu) { return gpu.uuid; }},
      {{"pci.bus_id", "gpu_bus_id"}, "", [](const Gpu& gpu) { return gpu.bus_id; }},
      {{"count"},
       "",
       [count = machine.gpus.size()](const Gpu&) { return std::to_string(count); }},
      {{"driver_version"},
       "",
       [version = machine.driver_version](const Gpu&) { return version; }},
      {{"timestamp"}, "", [now = std::string(now)](const Gpu&) { return now; }},
      {{"memory.total"}, "MiB", [](const Gpu& gpu) { return MiB(gpu.total_bytes); }},
      {{"memory.used"}, "MiB", [](const Gpu& gpu) { return MiB(gpu.used_bytes); }},
      {{"memory.free"}, "MiB", [](const Gpu& gpu) { return MiB(gpu.free_bytes); }},
      {{"memory.reserved"}, "MiB", [](const Gpu&) { return std::string("0"); }},
      {{"compute_cap"},
       "",
       [](const Gpu& gpu) {
         return std::to_string(gpu.compute_major) + "." +
                std::to_string(gpu.compute_minor);
       }},
      {{"clocks.max.sm", "clocks.max.gr", "clocks.max.graphics"},
       "MHz",
       [](const Gpu& gpu) { return std::to_string(gpu.max_sm_mhz); }},
      {{"clocks.max.memory", "clocks.max.mem"},
       "MHz",
       [](const Gpu& gpu) { return std::to_string(gpu.max_memory_mhz); }},
      // What a virtual GPU does not model.
      {{"utilization.gpu"}, "%", {}},
      {{"utilization.memory"}, "%", {}},
      {{"temperature.gpu"}, "", {}},
      {{"temperature.memory"}, "", {}},
      {{"power.draw"}, "W", {}},
      {{"power.draw.average"}, "W", {}},
      {{"power.draw.instant"}, "W", {}},
      {{"power.limit"}, "W", {}},
      {{"enforced.power.limit"}, "W", {}},
      {{"power.default_limit"}, "W", {}},
      {{"power.min_limit"}, "W", {}},
      {{"power.max_limit"}, "W", {}},
      {{"fan.speed"}, "%", {}},
      {{"pstate"}, "", {}},
      {{"clocks.current.sm", "clocks.sm"}, "MHz", {}},
      {{"clocks.current.graphics", "clocks.gr"}, "MHz", {}},
      {{"clocks.current.memory", "clocks.mem"}, "MHz", {}},
      {{"clocks.current.video", "clocks.video"}, "MHz", {}},
      {{"compute_mode"}, "", {}},
      {{"persistence_mode"}, "", {}},
      {{"display_active"}, "", {}},
      {{"display_mode"}, "", {}},
      {{"ecc.mode.current"}, "", {}},
      {{"ecc.errors.corrected.volatile.total"}, "", {}},
      {{"ecc.errors.uncorrected.volatile.total"}, "", {}},
      {{"mig.mode.current"}, "", {}},
      {{"mig.mode.pending"}, "", {}},
      {{"pcie.link.gen.current"}, "", {}},
      {{"pcie.link.gen.max"}, "", {}},
      {{"pcie.link.width.current"}, "", {}},
      {{"pcie.link.width.max"}, "", {}},
      {{"serial", "gpu_serial"}, "", {}},
      {{"vbios_version"}, "", {}},
  };
}

std::vector<Field<ProcessUse>> ProcessFields(const Machine& machine) {
  const auto gpu_of = [gpus = machine.gpus](const ProcessUse& use) {
    const auto found = std::find_if(
        gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.index == use.gpu; });
    return found == gpus.end() ? Gpu() : *found;
  };
  return {
      {{"pid"}, "", [](const ProcessUse& use) { return std::to_string(use.pid); }},
      {{"process_name", "name"}, "", [](const ProcessUse& use) { return use.name; }},
      {{"used_gpu_memory", "used_memory"},
       "MiB",
       [](const ProcessUse& use) { return MiB(use.used_bytes); }},
      {{"gpu_name"}, "", [=](const ProcessUse& use) { return gpu_of(use).name; }},
      {{"gpu_uuid"}, "", [=](const ProcessUse& use) { return gpu_of(use).uuid; }},
      {{"gpu_bus_id"}, "", [=](const ProcessUse& use) { return gpu_of(use).bus_id; }},
  };
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    while (word.starts_with(' '))
      word.remove_prefix(1);
    while (word.ends_with(' '))
      word.remove_suffix(1);
    words.push_back(word);
    if (comma == std::string_view::npos)
      return words;
    text.remove_prefix(comma + 1);
  }
}

template <typename Of>
const Field<Of>* Find(const std::vector<Field<Of>>& fields, std::string_view name) {
  for (const Field<Of>& field : fields)
    for (const std::string_view known : field.names)
      if (known == name)
        return &field;
  return nullptr;
}

template <typename Of>
bool Query(const std::vector<Field<Of>>& fields, std::string_view wanted,
           const std::vector<Of>& rows, CsvFormat format, std::string* text) {
  std::vector<const Field<Of>*> columns;
  std::string header;
  for (const std::string_view name : Words(wanted)) {
    const Field<Of>* const field = Find(fields, name);
    if (field == nullptr) {
      text->assign("Field \"")
          .append(name)
          .append("\" is not a valid field to query.\n");
      return false;
    }
    header.append(columns.empty() ? "" : ", ").append(name);
    if (!field->unit.empty() && format.units)
      header.append(" [").append(field->unit).append("]");
    columns.push_back(field);
  }
  *text = format.header ? header + "\n" : "";
  for (const Of& row : rows) {
    for (const Field<Of>* const column : columns) {
      if (column != columns.front())
        *text += ", ";
      *text += column->value ? column->value(row) : kUnknown;
      if (column->value && !column->unit.empty() && format.units)
        text->append(" ").append(column->unit);
    }
    *text += "\n";
  }
  return true;
}

}  // namespace

bool QueryGpus(const Machine& machine, std::string_view fields, CsvFormat format,
               std::string_view now, std::string* text) {
  return Query(GpuFields(machine, now), fields, machine.gpus, format, text);
}

bool QueryProcesses(const Machine& machine, std::string_view fields, CsvFormat format,
                    std::string* text) {
  return Query(ProcessFields(machine), fields, machine.processes, format, text);
}

}  // namespace vrank::smi
