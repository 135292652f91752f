#include "virtual_gpu/api/dnn/structure_kernel.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <unordered_map>

#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu::dnn {
namespace {

KernelCode* FindKernel(const std::string& name, uint16_t bytes) {
  static std::mutex mutex;
  static auto* const kernels = new std::unordered_map<std::string, KernelCode*>;
  std::lock_guard lock(mutex);
  KernelCode*& kernel = (*kernels)[name];
  if (kernel != nullptr)
    return kernel;
  kernel = MakeKernel(name);
  KernelSignature signature;
  signature.parameters = {{0, bytes, ParameterKind::kStruct, false}};
  signature.count = signature.known = 1;
  signature.bytes = bytes;
  signature.complete = true;
  kernel->signature = signature;
  return kernel;
}

}  // namespace

Error LaunchWithStructure(Gpu* gpu, void* stream, const KernelShape& shape,
                          void* arguments, uint16_t bytes) {
  KernelLaunch launch;
  KernelCode* const kernel = FindKernel(shape.name, bytes);
  // The library opts in to more shared memory than a block has by default.
  kernel->max_dynamic_shared.store(static_cast<int>(shape.shared));
  launch.kernel = kernel;
  std::copy(std::begin(shape.grid), std::end(shape.grid), launch.grid);
  launch.block[0] = shape.threads;
  launch.shared_bytes = shape.shared;
  launch.stream = stream;
  void* parameters[] = {arguments};
  launch.arguments = parameters;
  return gpu->LaunchKernel(launch);
}

}  // namespace vrank::gpu::dnn
