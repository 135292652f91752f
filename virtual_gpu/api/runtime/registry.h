// What the compiler's code registers before main: kernels and device variables.
//
// nvcc puts a static constructor into every object file with device code; it hands over
// the device image and, per kernel, the address of a host function that stands for it.
// Kernels do not run here. Where the name of one does not say how its parameters lie
// (structures by value, extern "C"), its image is opened when it is first used.
//
// Thread rule: every method may be called from any thread, and before main.

#ifndef VRANK_VIRTUAL_GPU_API_RUNTIME_REGISTRY_H_
#define VRANK_VIRTUAL_GPU_API_RUNTIME_REGISTRY_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "virtual_gpu/code/device_image.h"
#include "virtual_gpu/core/gpu.h"
#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {

class Registry {
 public:
  // The process's one; made on first use, never destroyed.
  static Registry& Get();

  // A device image (code/fatbin.h), and the end of all that came with it.
  void** AddImage(const void* data);
  void RemoveImage(void** image);

  void AddKernel(void** image, const void* host_function, const char* name);
  void AddVariable(void** image, const void* host_variable, size_t bytes);

  // The kernel behind a host function or behind a handle that Find returned; nullptr
  // where there is none.
  KernelCode* Find(Gpu& gpu, const void* function);

  // Where the variable lies on the calling thread's device; takes the memory for it at
  // the first call, as a module is loaded when it is first needed.
  Error FindVariable(Gpu& gpu, const void* host_variable, void** address,
                     size_t* bytes);
  // The device's context is gone, and its memory with it.
  void ForgetDevice(int device);

 private:
  struct Kernel {
    void** image;
    std::string name;
    std::atomic<KernelCode*> code{nullptr};
  };
  // Lets the image tell how the kernel's parameters lie; says once per image why not.
  static void Describe(Gpu& gpu, void** image, KernelCode* code);

  struct Variable {
    void** image;
    size_t bytes;
    std::map<int, void*> addresses;  // by device
  };

  std::shared_mutex mutex_;
  std::unordered_map<const void*, Kernel> kernels_;       // by host function
  std::unordered_map<const void*, KernelCode*> handles_;  // handed out
  std::unordered_map<const void*, Variable> variables_;   // by host variable
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_RUNTIME_REGISTRY_H_
