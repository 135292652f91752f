// The process's GPU, cuInit, and the door for NVIDIA-like neighbours: cuGetExportTable.

#include "virtual_gpu/api/driver/entry.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/guest/channel.h"
#include "base/guest/raw_log.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/api/driver/injection.h"
#include "virtual_gpu/core/value_policy.h"

namespace vrank::gpu {
namespace {

std::atomic<bool> initialized{false};

// The program or library that the code lies in.
std::string_view FileOf(const void* code) {
  Dl_info info;
  return dladdr(code, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname
                                                               : "the program";
}

}  // namespace

ProcessGpu& TheGpu() {
  static ProcessGpu* const gpu = [] {
    auto* const made = new ProcessGpu(FindChannel());
    if (const char* rules = getenv("VRANK_VALUES"))
      made->SetValuePolicy(MakeValuePolicy(rules));
    return made;
  }();
  return *gpu;
}

CUresult Initialized() {
  return initialized.load(std::memory_order_acquire) ? CUDA_SUCCESS
                                                     : CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace vrank::gpu

using vrank::gpu::TheGpu;

VRANK_CUDA CUresult cuInit(unsigned flags) {
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const vrank::gpu::Error ready = TheGpu().Ready();
  if (ready == vrank::gpu::Error::kSuccess) {
    vrank::gpu::initialized.store(true, std::memory_order_release);
    vrank::gpu::InjectTool();
  }
  return vrank::gpu::Result(ready);
}

VRANK_CUDA CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

// NVIDIA's own tables serve the CUDA runtime that nvcc links into programs by default;
// one of them holds a keyed check that only NVIDIA's driver answers. Who asks for any
// table but ours was linked that way.
VRANK_CUDA CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  static const vrank::VirtualGpuTable ours{.gpu = &TheGpu().libraries(),
                                           .runtime = &TheGpu(),
                                           .activity = &TheGpu().activity(),
                                           .tap = &TheGpu().activity()};
  if (table == nullptr || id == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  if (std::memcmp(id->bytes, vrank::kVirtualGpuTable, sizeof id->bytes) == 0) {
    *table = &ours;
    // NVIDIA's libraries initialise the driver when they first need it; from then on
    // the program's own driver calls need no cuInit. Which devices are visible is not
    // looked at yet: NVML, which does not care, may be asked before the program has
    // said it. Outside vrank the table is found, too: its users say what is missing.
    if (TheGpu().Reachable() == vrank::gpu::Error::kSuccess)
      vrank::gpu::initialized.store(true, std::memory_order_release);
    vrank::gpu::InjectTool();
    return CUDA_SUCCESS;
  }
  // NVIDIA's compilers ask for a table of theirs, too, and do without.
  static std::atomic<bool> said;
  const std::string_view caller = vrank::gpu::FileOf(__builtin_return_address(0));
  if (caller.find("/libnv") == std::string_view::npos && !said.exchange(true))
    vrank::RawLog("libcuda",
                  "%.*s contains its own copy of the CUDA runtime, which cannot run on "
                  "a virtual GPU; link it with `nvcc -cudart shared` (CMake: "
                  "CUDA_RUNTIME_LIBRARY Shared)",
                  static_cast<int>(caller.size()), caller.data());
  return CUDA_ERROR_NOT_FOUND;
}
