// libcupti as NVTX's injection library (NVTX_INJECTION64_PATH=libcupti.so.13).
//
// The program's ranges are seen by libvrank_host, which every process of vrank has
// loaded and which has the same entry point; it passes them on to the virtual GPU. So
// this one only hands over.

#include <dlfcn.h>

#include "base/guest/export.h"

// 1 where NVTX's tables are filled, else 0.
extern "C" VRANK_EXPORT int InitializeInjectionNvtx2(void* get_export_table) {
  using Initialize = int (*)(void*);
  const auto next =
      reinterpret_cast<Initialize>(dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2"));
  return next == nullptr || next == &InitializeInjectionNvtx2 ? 0
                                                              : next(get_export_table);
}
