// dlopen, InitializeInjection.

#include "virtual_gpu/api/driver/injection.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/guest/raw_log.h"

namespace vrank::gpu {
namespace {

void Inject(const char* path) {
  void* tool = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (tool == nullptr) {
    RawLog("libcuda", "cannot open the tool that CUDA_INJECTION64_PATH names: %s",
           dlerror());
    return;
  }
  auto initialize = reinterpret_cast<int (*)()>(dlsym(tool, "InitializeInjection"));
  if (initialize == nullptr)
    RawLog("libcuda",
           "%s, which CUDA_INJECTION64_PATH names, exports no InitializeInjection; the "
           "program runs without it",
           path);
  else if (initialize() == 0)
    RawLog("libcuda", "the tool %s did not start; the program runs without it", path);
}

}  // namespace

void InjectTool() {
  // Recursive: the tool may call cuInit. Other threads wait until it has started.
  static std::recursive_mutex mutex;
  static bool injected = false;
  std::lock_guard lock(mutex);
  if (injected)
    return;
  injected = true;
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path != nullptr && *path != '\0' && strcmp(path, "none") != 0)
    Inject(path);
}

}  // namespace vrank::gpu
