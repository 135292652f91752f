// The CUDA driver of the process, opened at run time: nothing links against it, so that
// everything runs where there is none.
//
// Thread rule: one thread.

#ifndef VRANK_GPU_HOLD_DRIVER_LIBRARY_H_
#define VRANK_GPU_HOLD_DRIVER_LIBRARY_H_

#include <dlfcn.h>

#include <string>

namespace vrank::hold {

class DriverLibrary {
 public:
  // Errors go to `error`, which outlives it, as a sentence's beginning.
  explicit DriverLibrary(std::string* error)
      : library_(dlopen("libcuda.so.1", RTLD_NOW)), error_(error) {
    if (library_ == nullptr)
      *error_ = "there is no libcuda.so.1";
  }

  // False: the library or the function is missing.
  template <typename Function>
  bool Find(const char* name, Function* function) const {
    if (library_ == nullptr)
      return false;
    *function = reinterpret_cast<Function>(dlsym(library_, name));
    if (*function == nullptr)
      *error_ = std::string("libcuda.so.1 has no ") + name;
    return *function != nullptr;
  }

 private:
  void* const library_;  // stays open
  std::string* const error_;
};

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_DRIVER_LIBRARY_H_
