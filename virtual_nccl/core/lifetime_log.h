// Lines of NCCL_DEBUG=INFO about the life of a communicator, in the words of
// NCCL 2.28.9 (src/init.cc).
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_CORE_LIFETIME_LOG_H_
#define VRANK_VIRTUAL_NCCL_CORE_LIFETIME_LOG_H_

#include "virtual_nccl/core/communicator.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

// "ncclCommInitRank comm ... - Init `what`": START or COMPLETE.
void LogInit(Library& library, const Creation& creation,
             const Communicator& communicator, const char* what);

// "comm ... - `what`": how it ends. `count`: what NCCL calls the number of ranks in
// that line, nranks or nRanks.
void LogEnd(const Communicator& communicator, const char* count, const char* what);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_LIFETIME_LOG_H_
