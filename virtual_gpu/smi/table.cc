// The table and the list of nvidia-smi.

#include <cstdio>

#include "virtual_gpu/smi/report.h"

namespace vrank::smi {
namespace {

constexpr uint64_t kMiB = 1 << 20;

template <typename... Values>
std::string Format(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

constexpr const char* kLine =
    "+------------------------------------------------------------------------------"
    "-----------+\n";
constexpr const char* kColumns =
    "+-----------------------------------------+------------------------+-----------"
    "-----------+\n";
constexpr const char* kHead =
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile "
    "Uncorr. ECC |\n"
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  "
    "Compute M. |\n"
    "|                                         |                        |           "
    "    MIG M. |\n"
    "|=========================================+========================+==========="
    "===========|\n";
constexpr const char* kProcessHead =
    "| Processes:                                                                   "
    "           |\n"
    "|  GPU   GI   CI              PID   Type   Process name                        "
    "GPU Memory |\n"
    "|        ID   ID                                                               "
    "Usage      |\n"
    "|=============================================================================="
    "===========|\n";

std::string GpuRows(const Gpu& gpu) {
  const std::string memory = Format(
      "%lluMiB / %6lluMiB", static_cast<unsigned long long>(gpu.used_bytes / kMiB),
      static_cast<unsigned long long>(gpu.total_bytes / kMiB));
  return Format("| %3u  %-29.29s N/A  |   %-16.16s N/A | %20s |\n", gpu.index,
                gpu.name.c_str(), gpu.bus_id.c_str(), "N/A") +
         Format(
             "| N/A   N/A    N/A            N/A /  N/A  | %22.22s |     N/A      "
             "Default "
             "|\n",
             memory.c_str()) +
         Format("| %39s | %22s | %20s |\n", "", "", "N/A");
}

std::string ProcessRow(const ProcessUse& process) {
  return Format("| %4u   N/A  N/A %16u      C   %-34.34s %7lluMiB |\n", process.gpu,
                process.pid, process.name.c_str(),
                static_cast<unsigned long long>(process.used_bytes / kMiB));
}

}  // namespace

std::string Table(const Machine& machine, std::string_view now) {
  const std::string cuda =
      Format("%d.%d", machine.cuda_version / 1000, machine.cuda_version % 1000 / 10);
  std::string text = std::string(now) + "       \n" + kLine;
  text += Format("| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-9s|\n",
                 machine.driver_version.c_str(), machine.driver_version.c_str(),
                 cuda.c_str());
  text += std::string(kColumns) + kHead;
  for (const Gpu& gpu : machine.gpus)
    text += GpuRows(gpu) + kColumns;
  text += std::string(91, ' ') + "\n" + kLine + kProcessHead;
  for (const ProcessUse& process : machine.processes)
    text += ProcessRow(process);
  if (machine.processes.empty())
    text += Format("|  %-87s|\n", "No running processes found");
  return text + kLine;
}

std::string List(const Machine& machine) {
  std::string text;
  for (const Gpu& gpu : machine.gpus)
    text += Format("GPU %u: %s (UUID: %s)\n", gpu.index, gpu.name.c_str(),
                   gpu.uuid.c_str());
  return text;
}

}  // namespace vrank::smi
