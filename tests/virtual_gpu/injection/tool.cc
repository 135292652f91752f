// A tool as CUDA_INJECTION64_PATH names one. While it starts it calls the program's
// `during_injection`, and says how often it was started.

#include <dlfcn.h>

#include "base/guest/export.h"

extern "C" {
VRANK_EXPORT int injections = 0;
}

extern "C" VRANK_EXPORT int InitializeInjection() {
  ++injections;
  auto during = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "during_injection"));
  if (during != nullptr)
    during();
  return 1;
}
