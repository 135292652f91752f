#include "virtual_gpu/code/device_image.h"

#include "virtual_gpu/code/fatbin.h"

namespace vrank::gpu {

void DeviceImage::Open(uint32_t architecture) {
  if (open_)
    return;
  open_ = true;
  Elf elf;
  problem_ = FindElf(image_, architecture, &elf);
  if (problem_ == nullptr)
    problem_ = ReadCubin(elf.data, elf.bytes, architecture, &kernels_);
  runnable_ = elf.runnable;
  for (auto& [name, kernel] : kernels_)
    kernel.resources.runnable = runnable_;
}

const CubinKernels& DeviceImage::kernels(uint32_t architecture, const char** problem) {
  Open(architecture);
  if (problem != nullptr)
    *problem = problem_;
  return kernels_;
}

const char* DeviceImage::Describe(const char* kernel, uint32_t architecture,
                                  KernelSignature* signature, ThreadWork* work,
                                  KernelResources* resources) {
  Open(architecture);
  const auto found = kernels_.find(kernel);
  resources->runnable = runnable_;
  if (found != kernels_.end()) {
    *work = found->second.thread_work;
    *resources = found->second.resources;
  }
  if (signature->complete)
    return nullptr;
  if (found == kernels_.end())
    return problem_ != nullptr ? problem_ : "its device image does not describe it";
  return Complete(found->second.places, signature)
             ? nullptr
             : "its name and its machine code contradict each other";
}

}  // namespace vrank::gpu
