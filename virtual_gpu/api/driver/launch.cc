// libcuda, chapter "Execution control": launches of the functions that this process
// registered or loaded. A CUfunction is the address of its KernelCode.

#include "virtual_gpu/api/driver/entry.h"
#include "virtual_gpu/api/driver/graph_parameters.h"

using vrank::gpu::CallInContext;
using vrank::gpu::Error;
using vrank::gpu::KernelCode;
using vrank::gpu::KernelLaunch;
using vrank::gpu::ProcessGpu;
using vrank::gpu::ReadExtra;

VRANK_CUDA CUresult cuLaunchKernelEx(const CUlaunchConfig* configuration,
                                     CUfunction function, void** arguments,
                                     void** extra) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (configuration == nullptr || (arguments != nullptr && extra != nullptr))
      return Error::kInvalidValue;
    const CUlaunchConfig& from = *configuration;
    for (unsigned i = 0; i < from.numAttrs; ++i)
      if (from.attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
          from.attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
        return Error::kNotSupported;
    KernelLaunch launch{.kernel = reinterpret_cast<KernelCode*>(function),
                        .grid = {from.gridDimX, from.gridDimY, from.gridDimZ},
                        .block = {from.blockDimX, from.blockDimY, from.blockDimZ},
                        .shared_bytes = from.sharedMemBytes,
                        .stream = from.hStream,
                        .arguments = arguments};
    VRANK_RETURN_IF_FAILED(ReadExtra(extra, &launch));
    return launch.kernel == nullptr ? Error::kInvalidHandle : gpu.LaunchKernel(launch);
  });
}

VRANK_CUDA CUresult cuLaunchKernel(CUfunction function, unsigned grid_x,
                                   unsigned grid_y, unsigned grid_z, unsigned block_x,
                                   unsigned block_y, unsigned block_z,
                                   unsigned shared_bytes, CUstream stream,
                                   void** arguments, void** extra) {
  CUlaunchConfig configuration{};
  configuration.gridDimX = grid_x;
  configuration.gridDimY = grid_y;
  configuration.gridDimZ = grid_z;
  configuration.blockDimX = block_x;
  configuration.blockDimY = block_y;
  configuration.blockDimZ = block_z;
  configuration.sharedMemBytes = shared_bytes;
  configuration.hStream = stream;
  return vrank::gpu::Alias(
      [&] { return cuLaunchKernelEx(&configuration, function, arguments, extra); });
}
VRANK_CUDA CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x,
                                        unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared_bytes,
                                        CUstream stream, void** arguments,
                                        void** extra) {
  return vrank::gpu::Alias([&] {
    return cuLaunchKernel(
        function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
        stream == nullptr ? CU_STREAM_PER_THREAD : stream, arguments, extra);
  });
}
