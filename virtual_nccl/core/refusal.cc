#include "virtual_nccl/core/refusal.h"

#include "base/guest/refuse.h"
#include "virtual_nccl/core/error.h"

namespace vrank::nccl {

int Refuse(const char* name, std::atomic<bool>* said) {
  constexpr char kTable[] = "docs/nccl_compat.md";
  RefuseCall(kLibrary, name, kTable, said);
  return Fail(ncclInvalidUsage, "%s is not modelled (%s)", name, kTable);
}

}  // namespace vrank::nccl
