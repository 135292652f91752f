// dlopen and dlsym.

#include "tracer/cupti/cupti_library.h"

#include <dlfcn.h>

namespace vrank::tracer {
namespace {

// NVIDIA's names, the newest first.
constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12"};

void* Open(const std::string& path, std::string* why) {
  if (!path.empty()) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
      *why = std::string("cannot open the CUPTI that VRANK_TRACE_CUPTI names: ") +
             dlerror();
    return handle;
  }
  // One that the program has loaded already is the one that fits it.
  for (const int flags : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL})
    for (const char* name : kNames)
      if (void* handle = dlopen(name, flags))
        return handle;
  *why =
      "no libcupti.so.13 or libcupti.so.12 found; put the folder that has it "
      "(<CUDA>/extras/CUPTI/lib64) on LD_LIBRARY_PATH, or name the file in "
      "VRANK_TRACE_CUPTI";
  return nullptr;
}

}  // namespace

bool CuptiLibrary::Load(const std::string& path, std::string* why) {
  handle = Open(path, why);
  if (handle == nullptr)
    return false;
#define VRANK_CUPTI_FIND(name) \
  name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));
  VRANK_CUPTI_NEEDED(VRANK_CUPTI_FIND)
  VRANK_CUPTI_OPTIONAL(VRANK_CUPTI_FIND)
#undef VRANK_CUPTI_FIND
#define VRANK_CUPTI_CHECK(name)                                            \
  if (name == nullptr) {                                                   \
    *why = "this libcupti has no " #name "; use the one of CUDA 12 or 13"; \
    return false;                                                          \
  }
  VRANK_CUPTI_NEEDED(VRANK_CUPTI_CHECK)
#undef VRANK_CUPTI_CHECK
  return true;
}

std::string CuptiLibrary::Words(CUptiResult result) const {
  const char* words = nullptr;
  if (cuptiGetResultString != nullptr &&
      cuptiGetResultString(result, &words) == CUPTI_SUCCESS && words != nullptr)
    return words;
  return "CUPTI result " + std::to_string(static_cast<int>(result));
}

}  // namespace vrank::tracer
