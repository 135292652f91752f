// Whether the memory that a call names is memory that NCCL, or its kernel, can use.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_CORE_BUFFERS_H_
#define VRANK_VIRTUAL_NCCL_CORE_BUFFERS_H_

#include <nccl.h>

#include "virtual_nccl/core/call.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

// With NCCL_CHECK_POINTERS=1, the check of 2.28.9 (src/misc/argcheck.cc):
// InvalidArgument for memory that CUDA does not know, or of another device than the
// communicator's.
ncclResult_t CheckPointers(Library& library, const Request& request,
                           const Communicator& communicator);
// `name`: of the argument, for the message. NCCL_CHECK_POINTERS is not looked at.
ncclResult_t CheckPointer(Library& library, const void* pointer, const char* function,
                          const char* name, int device);
// NCCL_CHECK_POINTERS, read once.
bool PointersAreChecked();

// Without that check the kernel finds out. False where it would not get through: where
// there is no memory, or where the communicator of a graph's call is gone. Then the
// process's CUDA has failed, and stderr says why.
bool KernelGetsThrough(Library& library, const Call& call);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_BUFFERS_H_
