// Says no by name. Knows nothing of nccl.h, whose declarations the refusing definitions
// (api/unsupported.cc) would contradict.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_CORE_REFUSAL_H_
#define VRANK_VIRTUAL_NCCL_CORE_REFUSAL_H_

#include <atomic>

namespace vrank::nccl {

// Logs the first call of this name (`said` belongs to it), counts every one, keeps the
// message for ncclGetLastError, with what to do in its place. Returns ncclInvalidUsage.
int Refuse(const char* name, const char* instead, std::atomic<bool>* said);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_REFUSAL_H_
