// How a guest library refuses a function of NVIDIA's that it does not model.
//
// Each stand-in exports every name of the library it replaces, so that programs load; a
// call of a name without a model says so once, is counted in the report, and returns
// the library's own "not supported". The definitions are generated from the symbol
// lists (virtual_gpu/generate/refusals.py) and are weak: a model is a strong definition
// of the same name in the same link and takes its place.
//
// Thread rule: may be called from any thread, and before main.

#ifndef VRANK_BASE_GUEST_REFUSE_H_
#define VRANK_BASE_GUEST_REFUSE_H_

#include <atomic>

#include "base/guest/channel.h"
#include "base/guest/export.h"
#include "base/guest/raw_log.h"

namespace vrank {

// `table` is the page that lists what is modelled; `said` belongs to this name alone.
inline void RefuseCall(const char* library, const char* name, const char* table,
                       std::atomic<bool>* said) {
  if (Channel* channel = FindChannel())
    channel->Count(LossId::kRefusedCall, 1, name);
  if (!said->exchange(true, std::memory_order_relaxed))
    RawLog(library, "%s is not modelled (%s)", name, table);
}

}  // namespace vrank

// One refused name. `result` is empty for functions that return nothing. The parameters
// are left out: on x86-64 and AArch64 the caller places and removes them.
#define VRANK_REFUSE(library, table, type, name, result)      \
  extern "C" VRANK_EXPORT __attribute__((weak)) type name() { \
    static std::atomic<bool> said;                            \
    vrank::RefuseCall(library, #name, table, &said);          \
    return result;                                            \
  }

#endif  // VRANK_BASE_GUEST_REFUSE_H_
