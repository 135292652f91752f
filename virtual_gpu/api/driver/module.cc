// libcuda, chapter "Module management": code that a program loads while it runs, as
// Triton does. Machine code (a cubin, or a fat binary that holds one) is read for the
// names of its kernels and how they take their parameters; PTX, which a driver would
// compile, and variables of modules are refused.
//
// A CUfunction stays valid after cuModuleUnload (CUDA leaves that undefined): work that
// was issued earlier still needs its name.

#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/guest/raw_log.h"
#include "virtual_gpu/api/driver/entry.h"
#include "virtual_gpu/code/device_image.h"

namespace vrank::gpu {
namespace {

using Module = std::map<std::string, KernelCode*>;  // by name

struct Modules {
  std::mutex mutex;
  std::unordered_map<CUmodule, std::unique_ptr<Module>> loaded;
};
Modules& All() {
  static auto* const modules = new Modules;  // threads may outlive static objects
  return *modules;
}

KernelCode* NewKernel(ProcessGpu& gpu, const std::string& name,
                      const CubinKernel& kernel) {
  KernelCode* const code = MakeKernel(name);
  code->thread_work = kernel.thread_work;
  code->resources = kernel.resources;
  if (!code->resources.known)
    gpu.channel()->Count(LossId::kLimitsUnknown, 1, code->name);
  if (!Complete(kernel.places, &code->signature))
    RawLog("virtual_gpu",
           "how kernel %.200s takes its parameters is unknown: its name and its "
           "machine code contradict each other",
           code->name.c_str());
  return code;
}

Error Load(ProcessGpu& gpu, const void* image, CUmodule* module) {
  if (image == nullptr || module == nullptr)
    return Error::kInvalidValue;
  const protocol::GpuProperties& properties = gpu.channel()->settings().gpu;
  DeviceImage code(image);
  const char* problem = nullptr;
  const CubinKernels& kernels =
      code.kernels(properties.compute_major * 10 + properties.compute_minor, &problem);
  if (problem != nullptr) {
    RawLog("virtual_gpu", "a module cannot be loaded: %s", problem);
    return Error::kNoBinaryForGpu;
  }
  if (!code.runnable()) {
    RawLog("virtual_gpu",
           "a module cannot be loaded: it holds no code for sm_%u%u (compile it for "
           "this GPU)",
           properties.compute_major, properties.compute_minor);
    return Error::kNoBinaryForGpu;
  }
  auto made = std::make_unique<Module>();
  // The image may be gone after this call. Code of large modules is not kept.
  constexpr size_t kMostKernels = 16;
  const uint32_t architecture =
      properties.compute_major * 10 + properties.compute_minor;
  for (const auto& [name, kernel] : kernels) {
    KernelCode* const one = NewKernel(gpu, name, kernel);
    if (kernels.size() <= kMostKernels)
      one->computation.code = DeviceImage::ReadCode(image, name.c_str(), architecture);
    made->emplace(name, one);
  }
  *module = reinterpret_cast<CUmodule>(made.get());
  std::lock_guard lock(All().mutex);
  All().loaded.emplace(*module, std::move(made));
  return Error::kSuccess;
}

}  // namespace
}  // namespace vrank::gpu

using namespace vrank::gpu;

VRANK_CUDA CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return CallInContext([&](ProcessGpu& gpu) { return Load(gpu, image, module); });
}

VRANK_CUDA CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (path == nullptr)
      return Error::kInvalidValue;
    std::ifstream file(path, std::ios::binary);
    if (!file)
      return static_cast<Error>(CUDA_ERROR_FILE_NOT_FOUND);
    // PTX is a text that ends with a zero.
    std::string image(std::istreambuf_iterator<char>(file), {});
    return Load(gpu, image.c_str(), module);
  });
}

// The options steer a compiler, which machine code does not need.
VRANK_CUDA CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned,
                                       CUjit_option*, void**) {
  return CallInContext([&](ProcessGpu& gpu) { return Load(gpu, image, module); });
}

VRANK_CUDA CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return CallInContext([&](ProcessGpu& gpu) { return Load(gpu, image, module); });
}

VRANK_CUDA CUresult cuModuleUnload(CUmodule module) {
  return CallInContext([&](ProcessGpu&) {
    std::lock_guard lock(All().mutex);
    return All().loaded.erase(module) == 1 ? Error::kSuccess : Error::kInvalidHandle;
  });
}

VRANK_CUDA CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                                        const char* name) {
  return CallInContext([&](ProcessGpu&) {
    if (function == nullptr || name == nullptr)
      return Error::kInvalidValue;
    std::lock_guard lock(All().mutex);
    const auto from = All().loaded.find(module);
    if (from == All().loaded.end())
      return Error::kInvalidHandle;
    const auto kernel = from->second->find(name);
    if (kernel == from->second->end())
      return Error::kNotFound;
    *function = reinterpret_cast<CUfunction>(kernel->second);
    return Error::kSuccess;
  });
}
