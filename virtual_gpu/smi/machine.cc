#include "virtual_gpu/smi/machine.h"

#include <dlfcn.h>
#include <nvml.h>

#include <fstream>

namespace vrank::smi {
namespace {

// The functions used, looked up by name: the program starts without a driver, too.
struct Nvml {
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_NOW);

  template <typename Function>
  Function* Find(const char* name, Function*) const {
    return reinterpret_cast<Function*>(dlsym(handle, name));
  }
};

#define NVML_CALL(nvml, name, ...) (nvml).Find(#name, &name)(__VA_ARGS__)

// The first line of /proc/PID/cmdline's first word, as nvidia-smi shows it.
std::string NameOf(unsigned pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string name;
  std::getline(file, name, '\0');
  return name.empty() ? "[Not Found]" : name;
}

Gpu ReadGpu(const Nvml& nvml, nvmlDevice_t device, unsigned index) {
  Gpu gpu;
  gpu.index = index;
  char text[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";
  if (NVML_CALL(nvml, nvmlDeviceGetName, device, text, sizeof text) == NVML_SUCCESS)
    gpu.name = text;
  if (NVML_CALL(nvml, nvmlDeviceGetUUID, device, text, sizeof text) == NVML_SUCCESS)
    gpu.uuid = text;
  nvmlPciInfo_t pci{};
  if (NVML_CALL(nvml, nvmlDeviceGetPciInfo_v3, device, &pci) == NVML_SUCCESS)
    gpu.bus_id = pci.busId;
  nvmlMemory_t memory{};
  if (NVML_CALL(nvml, nvmlDeviceGetMemoryInfo, device, &memory) == NVML_SUCCESS) {
    gpu.total_bytes = memory.total;
    gpu.used_bytes = memory.used;
    gpu.free_bytes = memory.free;
  }
  NVML_CALL(nvml, nvmlDeviceGetCudaComputeCapability, device, &gpu.compute_major,
            &gpu.compute_minor);
  NVML_CALL(nvml, nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_SM, &gpu.max_sm_mhz);
  NVML_CALL(nvml, nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_MEM,
            &gpu.max_memory_mhz);
  return gpu;
}

void ReadProcesses(const Nvml& nvml, nvmlDevice_t device, unsigned index,
                   std::vector<ProcessUse>* processes) {
  std::vector<nvmlProcessInfo_t> infos(64);
  auto count = static_cast<unsigned>(infos.size());
  if (NVML_CALL(nvml, nvmlDeviceGetComputeRunningProcesses_v3, device, &count,
                infos.data()) != NVML_SUCCESS)
    return;
  for (unsigned i = 0; i < count; ++i)
    processes->push_back(
        {index, infos[i].pid, NameOf(infos[i].pid), infos[i].usedGpuMemory});
}

}  // namespace

bool ReadMachine(Machine* machine, std::string* why) {
  const Nvml nvml;
  if (nvml.handle == nullptr) {
    *why =
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make "
        "sure that the NVIDIA Display Driver is properly installed and present in your "
        "system.";
    return false;
  }
  if (const nvmlReturn_t status = NVML_CALL(nvml, nvmlInit_v2, );
      status != NVML_SUCCESS) {
    *why = std::string("Failed to initialize NVML: ") +
           NVML_CALL(nvml, nvmlErrorString, status);
    return false;
  }
  char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
  NVML_CALL(nvml, nvmlSystemGetDriverVersion, version, sizeof version);
  machine->driver_version = version;
  NVML_CALL(nvml, nvmlSystemGetCudaDriverVersion, &machine->cuda_version);
  unsigned count = 0;
  NVML_CALL(nvml, nvmlDeviceGetCount_v2, &count);
  for (unsigned i = 0; i < count; ++i) {
    nvmlDevice_t device{};
    if (NVML_CALL(nvml, nvmlDeviceGetHandleByIndex_v2, i, &device) != NVML_SUCCESS)
      continue;
    machine->gpus.push_back(ReadGpu(nvml, device, i));
    ReadProcesses(nvml, device, i, &machine->processes);
  }
  NVML_CALL(nvml, nvmlShutdown, );
  return true;
}

}  // namespace vrank::smi
