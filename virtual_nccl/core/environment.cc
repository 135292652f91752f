#include "virtual_nccl/core/environment.h"

#include <strings.h>
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

std::string Join(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names)
    list += (list.empty() ? "" : ", ") + name;
  return list;
}

bool IsNumber(const char* text) {
  char* end = nullptr;
  strtoll(text, &end, 0);
  return *text != '\0' && *end == '\0';
}

// What NCCL would take, where it would not take `value`. Empty values are as unset.
const char* WhatIsTaken(std::string_view name, const char* value) {
  if (*value == '\0')
    return nullptr;
  if (name == "NCCL_COMM_BLOCKING") {
    const bool fits = IsNumber(value) &&
                      static_cast<unsigned long long>(strtoll(value, nullptr, 0)) <= 1;
    return fits ? nullptr : "0 or 1";
  }
  if (name == "NCCL_CHECK_POINTERS" || name == "NCCL_LOCAL_REGISTER")
    return IsNumber(value) ? nullptr : "a number";
  if (name == "NCCL_DEBUG") {
    for (const char* level : {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"})
      if (strcasecmp(value, level) == 0)
        return nullptr;
    return "VERSION, WARN, INFO, ABORT or TRACE";
  }
  return nullptr;
}

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
    const char* const value = *environment + std::min(name.size() + 1, entry.size());
    const char* const taken = honoured ? WhatIsTaken(name, value) : nullptr;
    if (taken != nullptr)
      found.unusable.push_back(std::string(entry) + " (" + taken + ")");
  }
  std::sort(found.honoured.begin(), found.honoured.end());
  std::sort(found.ignored.begin(), found.ignored.end());
  std::sort(found.unusable.begin(), found.unusable.end());
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
  if (!found.ignored.empty())
    RawLog(kLibrary, "ignored, the model does not know them: %s (docs/nccl_compat.md)",
           Join(found.ignored).c_str());
  if (!found.unusable.empty())
    RawLog(kLibrary, "ignored, as by NCCL, which takes other values: %s",
           Join(found.unusable).c_str());
}

}  // namespace vrank::nccl
