#include "virtual_nccl/core/refusal.h"

#include "base/guest/refuse.h"
#include "virtual_nccl/core/error.h"

namespace vrank::nccl {

int Refuse(const char* name, const char* instead, std::atomic<bool>* said) {
  constexpr char kTable[] = "docs/nccl_compat.md";
  const bool first = !said->load(std::memory_order_relaxed);
  RefuseCall(kLibrary, name, kTable, said);
  if (first)
    RawLog(kLibrary, "%s", instead);
  return Fail(ncclInvalidUsage, "%s is not modelled (%s): %s", name, kTable, instead);
}

}  // namespace vrank::nccl
