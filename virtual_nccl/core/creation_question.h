// A creation as the emulator is asked about it.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_CORE_CREATION_QUESTION_H_
#define VRANK_VIRTUAL_NCCL_CORE_CREATION_QUESTION_H_

#include <cstdint>

#include "base/guest/protocol.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

// Else a split or a shrink.
bool IsInit(const Creation& creation);

// Without a token. REQUIRES: IsInit(creation).
protocol::CommInit InitQuestion(Library& library, const Creation& creation,
                                uint32_t local_members);
// Without a token. What a shrink excludes follows it. REQUIRES: !IsInit(creation).
protocol::CommSplit SplitQuestion(Library& library, const Creation& creation);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_CREATION_QUESTION_H_
