// Functions of PyTorch's own libraries, which need not be visible to all.
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_HOST_QUIRKS_TORCH_LIBRARY_H_
#define VRANK_VIRTUAL_HOST_QUIRKS_TORCH_LIBRARY_H_

#include <dlfcn.h>

namespace vrank::host {

// nullptr where the library is not loaded or has no such name.
template <typename F>
F Theirs(const char* name, const char* file) {
  void* const library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<F>(dlsym(library, name));
}

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_QUIRKS_TORCH_LIBRARY_H_
