// libcuda, chapter "Execution control": launches of the functions that this process
// registered or loaded.

#include "virtual_gpu/api/driver/entry.h"
#include "virtual_gpu/api/driver/graph_parameters.h"
#include "virtual_gpu/api/driver/launch_configuration.h"

using vrank::gpu::Alias;
using vrank::gpu::CallInContext;
using vrank::gpu::Error;
using vrank::gpu::KernelLaunch;
using vrank::gpu::PerThread;
using vrank::gpu::ProcessGpu;
using vrank::gpu::ReadConfiguration;
using vrank::gpu::ReadExtra;

VRANK_CUDA CUresult cuLaunchKernelEx(const CUlaunchConfig* configuration,
                                     CUfunction function, void** arguments,
                                     void** extra) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (configuration == nullptr || (arguments != nullptr && extra != nullptr))
      return Error::kInvalidValue;
    KernelLaunch launch;
    VRANK_RETURN_IF_FAILED(ReadConfiguration(*configuration, function, &launch));
    launch.arguments = arguments;
    VRANK_RETURN_IF_FAILED(ReadExtra(extra, &launch));
    return gpu.LaunchKernel(launch);
  });
}
VRANK_CUDA CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* configuration,
                                          CUfunction function, void** arguments,
                                          void** extra) {
  if (configuration == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  CUlaunchConfig per_thread = *configuration;
  per_thread.hStream = PerThread(configuration->hStream);
  return Alias(
      [&] { return cuLaunchKernelEx(&per_thread, function, arguments, extra); });
}

VRANK_CUDA CUresult cuLaunchKernel(CUfunction function, unsigned grid_x,
                                   unsigned grid_y, unsigned grid_z, unsigned block_x,
                                   unsigned block_y, unsigned block_z,
                                   unsigned shared_bytes, CUstream stream,
                                   void** arguments, void** extra) {
  const CUlaunchConfig configuration{grid_x,  grid_y,       grid_z, block_x, block_y,
                                     block_z, shared_bytes, stream, nullptr, 0};
  return Alias(
      [&] { return cuLaunchKernelEx(&configuration, function, arguments, extra); });
}
VRANK_CUDA CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x,
                                        unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared_bytes,
                                        CUstream stream, void** arguments,
                                        void** extra) {
  return Alias([&] {
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                          shared_bytes, PerThread(stream), arguments, extra);
  });
}

VRANK_CUDA CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x,
                                              unsigned grid_y, unsigned grid_z,
                                              unsigned block_x, unsigned block_y,
                                              unsigned block_z, unsigned shared_bytes,
                                              CUstream stream, void** arguments) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  const CUlaunchConfig configuration{grid_x,  grid_y,       grid_z, block_x,    block_y,
                                     block_z, shared_bytes, stream, &attribute, 1};
  return Alias(
      [&] { return cuLaunchKernelEx(&configuration, function, arguments, nullptr); });
}
VRANK_CUDA CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x,
                                                   unsigned grid_y, unsigned grid_z,
                                                   unsigned block_x, unsigned block_y,
                                                   unsigned block_z,
                                                   unsigned shared_bytes,
                                                   CUstream stream, void** arguments) {
  return Alias([&] {
    return cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y,
                                     block_z, shared_bytes, PerThread(stream),
                                     arguments);
  });
}
