#include "virtual_nccl/core/environment.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "base/guest/raw_log.h"
#include "virtual_nccl/core/debug_log.h"
#include "virtual_nccl/core/error.h"

namespace vrank::nccl {
namespace {

constexpr std::string_view kHonoured[] = {
#define VRANK_NCCL_HONOURED(name, meaning) #name,
#define VRANK_NCCL_FOREIGN(prefix)
#include "virtual_nccl/core/environment.def"
#undef VRANK_NCCL_HONOURED
#undef VRANK_NCCL_FOREIGN
};

constexpr std::string_view kForeign[] = {
#define VRANK_NCCL_HONOURED(name, meaning)
#define VRANK_NCCL_FOREIGN(prefix) #prefix,
#include "virtual_nccl/core/environment.def"
#undef VRANK_NCCL_HONOURED
#undef VRANK_NCCL_FOREIGN
};

}  // namespace

NcclVariables FindNcclVariables(const char* const* environment) {
  NcclVariables found;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with("NCCL_") ||
        std::any_of(std::begin(kForeign), std::end(kForeign),
                    [&](std::string_view prefix) { return name.starts_with(prefix); }))
      continue;
    const bool honoured = std::find(std::begin(kHonoured), std::end(kHonoured), name) !=
                          std::end(kHonoured);
    (honoured ? found.honoured : found.ignored).emplace_back(name);
  }
  std::sort(found.honoured.begin(), found.honoured.end());
  std::sort(found.ignored.begin(), found.ignored.end());
  return found;
}

void NoteEnvironment(int device) {
  static std::atomic<bool> noted;
  if (noted.exchange(true))
    return;
  const NcclVariables found = FindNcclVariables(environ);
  for (const auto* names : {&found.honoured, &found.ignored})
    for (const std::string& name : *names)
      LogInfo(Subsystem::kEnv, device, "%s set by environment to %s.", name.c_str(),
              getenv(name.c_str()));
  if (found.ignored.empty())
    return;
  std::string list;
  for (const std::string& name : found.ignored)
    list += (list.empty() ? "" : ", ") + name;
  RawLog(kLibrary, "ignored, the model does not know them: %s (docs/nccl_compat.md)",
         list.c_str());
}

}  // namespace vrank::nccl
