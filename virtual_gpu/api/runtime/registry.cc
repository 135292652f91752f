// Tables by host address.

#include "virtual_gpu/api/runtime/registry.h"

#include <utility>

#include "base/guest/raw_log.h"

namespace vrank::gpu {
namespace {

// What the program's handle of an image points to.
struct Image {
  explicit Image(const void* from) : data(from), code(from) {}
  const void* const data;
  DeviceImage code;
  bool complained = false;
};

Image* ImageOf(void** handle) {
  return reinterpret_cast<Image*>(handle);
}

}  // namespace

Registry& Registry::Get() {
  static Registry* const registry = new Registry;
  return *registry;
}

void** Registry::AddImage(const void* data) {
  return reinterpret_cast<void**>(new Image(data));
}

void Registry::RemoveImage(void** image) {
  std::unique_lock lock(mutex_);
  std::erase_if(kernels_, [&](const auto& row) { return row.second.image == image; });
  std::erase_if(variables_, [&](const auto& row) { return row.second.image == image; });
  DeviceImage::Forget(ImageOf(image)->data);
  delete ImageOf(image);
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
  KernelCode* const code = MakeKernel(found->second.name);
  Describe(gpu, found->second.image, code);
  found->second.code.store(code, std::memory_order_release);
  handles_[code] = code;
  return code;
}

void Registry::Describe(Gpu& gpu, void** image, KernelCode* code) {
  if (gpu.channel() == nullptr)
    return;
  const protocol::GpuProperties& properties = gpu.channel()->settings().gpu;
  const uint32_t architecture =
      properties.compute_major * 10 + properties.compute_minor;
  Image* from = ImageOf(image);
  const char* problem =
      from->code.Describe(code->name.c_str(), architecture, &code->signature,
                          &code->thread_work, &code->resources);
  code->computation.read = [data = from->data, name = code->name.c_str(),
                            architecture] {
    return DeviceImage::ReadKeptCode(data, name, architecture);
  };
  if (!code->resources.known)
    gpu.channel()->Count(LossId::kLimitsUnknown, 1, code->name);
  if (problem == nullptr || std::exchange(from->complained, true))
    return;
  RawLog("virtual_gpu", "how kernel %.200s takes its parameters is unknown: %s",
         code->name.c_str(), problem);
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
