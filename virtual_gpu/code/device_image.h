// A device image, opened when one of its kernels is first used.
//
// Thread rule: one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_CODE_DEVICE_IMAGE_H_
#define VRANK_VIRTUAL_GPU_CODE_DEVICE_IMAGE_H_

#include <cstdint>
#include <memory>

#include "virtual_gpu/code/cubin.h"
#include "virtual_gpu/code/machine_code.h"

namespace vrank::gpu {

class DeviceImage {
 public:
  // `image`, see fatbin.h, stays valid while this object lives. Nothing is read yet.
  explicit DeviceImage(const void* image) : image_(image) {}

  // Completes the signature of one of the image's kernels, where its name did not, and
  // says what its threads do and which launches it takes. Returns nullptr, or why the
  // signature stays as it is.
  const char* Describe(const char* kernel, uint32_t architecture,
                       KernelSignature* signature, ThreadWork* work,
                       KernelResources* resources);

  // All kernels, by name. Opens the image. `problem`, if given: why there are none, or
  // nullptr.
  const CubinKernels& kernels(uint32_t architecture, const char** problem = nullptr);
  // Whether a GPU of the architecture that the image was opened for has code in it.
  bool runnable() const { return runnable_; }

  // The code of a kernel of the image that a GPU of the architecture runs; nullptr
  // where there is none that is interpreted. Unpacks the image again.
  static std::unique_ptr<MachineCode> ReadCode(const void* image, const char* kernel,
                                               uint32_t architecture);
  // The same of an image that stays at its place: the latest ones stay unpacked, until
  // Forget.
  static std::unique_ptr<MachineCode> ReadKeptCode(const void* image,
                                                   const char* kernel,
                                                   uint32_t architecture);
  static void Forget(const void* image);

 private:
  void Open(uint32_t architecture);

  const void* image_;
  bool open_ = false;
  bool runnable_ = true;
  const char* problem_ = nullptr;
  CubinKernels kernels_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_DEVICE_IMAGE_H_
