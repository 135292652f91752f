// Tables by host address.

#include "virtual_gpu/api/runtime/registry.h"

#include <utility>

namespace vrank::gpu {

Registry& Registry::Get() {
  static Registry* const registry = new Registry;
  return *registry;
}

void** Registry::AddImage() {
  return new void*(nullptr);
}

void Registry::RemoveImage(void** image) {
  std::unique_lock lock(mutex_);
  std::erase_if(kernels_, [&](const auto& row) { return row.second.image == image; });
  std::erase_if(variables_, [&](const auto& row) { return row.second.image == image; });
  delete image;
}

void Registry::AddKernel(void** image, const void* host_function, const char* name) {
  std::unique_lock lock(mutex_);
  Kernel& kernel = kernels_[host_function];
  kernel.image = image;
  kernel.name = name;
}

void Registry::AddVariable(void** image, const void* host_variable, size_t bytes) {
  std::unique_lock lock(mutex_);
  variables_[host_variable] = {image, bytes, {}};
}

KernelCode* Registry::Find(Gpu& gpu, const void* function) {
  {
    std::shared_lock lock(mutex_);
    auto found = kernels_.find(function);
    if (found == kernels_.end()) {
      auto handle = handles_.find(function);
      return handle == handles_.end() ? nullptr : handle->second;
    }
    KernelCode* code = found->second.code.load(std::memory_order_acquire);
    if (code != nullptr)
      return code;
  }
  std::unique_lock lock(mutex_);
  auto found = kernels_.find(function);
  if (found == kernels_.end())
    return nullptr;
  KernelCode* code = gpu.FindKernel(found->second.name.c_str());
  found->second.code.store(code, std::memory_order_release);
  handles_[code] = code;
  return code;
}

Error Registry::FindVariable(Gpu& gpu, const void* host_variable, void** address,
                             size_t* bytes) {
  std::unique_lock lock(mutex_);
  auto found = variables_.find(host_variable);
  if (found == variables_.end())
    return Error::kInvalidSymbol;
  Variable& variable = found->second;
  const int device = gpu.CurrentDevice() < 0 ? 0 : gpu.CurrentDevice();
  void*& place = variable.addresses[device];
  if (place == nullptr)
    VRANK_RETURN_IF_FAILED(gpu.Allocate(variable.bytes, &place));
  *address = place;
  *bytes = variable.bytes;
  return Error::kSuccess;
}

void Registry::ForgetDevice(int device) {
  std::unique_lock lock(mutex_);
  for (auto& [host, variable] : variables_)
    variable.addresses.erase(device);
}

}  // namespace vrank::gpu
