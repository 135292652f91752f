#include "virtual_gpu/code/device_image.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "virtual_gpu/code/fatbin.h"

namespace vrank::gpu {
namespace {

// What the latest images unpack to: kernels of one image tend to come together.
struct Unpacked {
  const void* image = nullptr;
  Elf elf;
};
struct Kept {
  std::mutex mutex;
  std::array<Unpacked, 4> images;
};

Kept& AllKept() {
  static auto* const kept = new Kept;  // threads may outlive static objects
  return *kept;
}

std::unique_ptr<MachineCode> CodeOf(const Elf& elf, const char* kernel,
                                    uint32_t architecture) {
  auto code = std::make_unique<MachineCode>();
  if (elf.data == nullptr || !Runs(architecture, ArchitectureOf(elf.data, elf.bytes)) ||
      ReadMachineCode(elf.data, elf.bytes, kernel, code.get()) != nullptr)
    return nullptr;
  return code;
}

}  // namespace

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

std::unique_ptr<MachineCode> DeviceImage::ReadCode(const void* image,
                                                   const char* kernel,
                                                   uint32_t architecture) {
  Elf elf;
  return FindElf(image, architecture, &elf) == nullptr
             ? CodeOf(elf, kernel, architecture)
             : nullptr;
}

std::unique_ptr<MachineCode> DeviceImage::ReadKeptCode(const void* image,
                                                       const char* kernel,
                                                       uint32_t architecture) {
  Kept& kept = AllKept();
  std::lock_guard lock(kept.mutex);
  auto found = std::find_if(kept.images.begin(), kept.images.end(),
                            [&](const Unpacked& one) { return one.image == image; });
  if (found == kept.images.end()) {
    found = kept.images.end() - 1;
    found->image = image;
    if (FindElf(image, architecture, &found->elf) != nullptr)
      found->elf = {};
  }
  std::rotate(kept.images.begin(), found, found + 1);
  return CodeOf(kept.images.front().elf, kernel, architecture);
}

void DeviceImage::Forget(const void* image) {
  Kept& kept = AllKept();
  std::lock_guard lock(kept.mutex);
  for (Unpacked& one : kept.images)
    if (one.image == image)
      one = {};
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
