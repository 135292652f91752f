// What every entry point of libnccl.so.2 starts with.
//
// An entry point is declared with NCCL_API, which gives it NVIDIA's linkage: a weak
// nccl name, so that a profiler may put its own in front, and a strong pnccl twin
// behind it. It finds the process's library, calls core/, and returns.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_API_ENTRY_H_
#define VRANK_VIRTUAL_NCCL_API_ENTRY_H_

#include <nccl.h>

#include "base/guest/export.h"
#include "base/guest/program_call.h"
#include "virtual_nccl/core/group.h"
#include "virtual_nccl/core/library.h"

#define NCCL_API(result, name, ...)                                                  \
  extern "C" VRANK_EXPORT __attribute__((weak)) result name(__VA_ARGS__);            \
  extern "C" VRANK_EXPORT __attribute__((alias(#name))) result p##name(__VA_ARGS__); \
  extern "C" VRANK_EXPORT result name(__VA_ARGS__)

namespace vrank::nccl {

// The process's library. *library is set or the result is a failure: SystemError
// outside vrank, UnhandledCudaError in a child after fork.
ncclResult_t FindLibrary(const char* function, Library** library);

Group& ThreadGroup();

// Calls body(library), and fails without one.
template <typename Body>
ncclResult_t WithLibrary(const char* function, Body body) {
  ProgramCall program(FindChannel(), function);
  Library* library = nullptr;
  ncclResult_t result = FindLibrary(function, &library);
  return result == ncclSuccess ? body(*library) : result;
}

inline ncclResult_t Enqueue(const Request& request) {
  return WithLibrary(request.function, [&](Library& library) {
    return Enqueue(library, ThreadGroup(), request);
  });
}

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_API_ENTRY_H_
