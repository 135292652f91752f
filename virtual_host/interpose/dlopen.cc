// Interposed: dlopen, so that a library we stand in for is ours however it is named.
//
// A preloaded library answers to its SONAME only: a dlopen by path, or of the
// development name (libcudart.so), would bring the real library in beside ours. Names
// that carry another major version than our stand-in's are left alone: their ABI
// differs.
//
// Also, NVRTC opens its builtins by name, and no path of its own leads there. With all
// of NVIDIA's wheels in place, PyTorch has loaded them by then; it does not where some
// are missing, since our libraries stand in for them. They lie beside NVRTC.

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/guest/export.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/library_code.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/system/redirect.h"

namespace vrank::host {
namespace {

// The folder of this library, with the slash at its end; the stand-ins lie beside it.
std::string_view OwnFolder() {
  static char folder[PATH_MAX];
  static const size_t length = [] {
    Dl_info self{};
    if (dladdr(reinterpret_cast<const void*>(&OwnFolder), &self) == 0 ||
        self.dli_fname == nullptr)
      return size_t{0};
    const char* slash = strrchr(self.dli_fname, '/');
    const size_t bytes = slash == nullptr ? 0 : slash - self.dli_fname + 1;
    if (bytes >= sizeof folder)
      return size_t{0};
    memcpy(folder, self.dli_fname, bytes);
    return bytes;
  }();
  return {folder, length};
}

constexpr std::string_view kCompilerBuiltins = "libnvrtc-builtins";

// `name` in `folder`, which ends with a slash; `file` where that is not there. The
// result lives as long as the thread.
const char* InFolder(std::string_view folder, std::string_view name, const char* file) {
  static thread_local char path[PATH_MAX];
  const int length =
      snprintf(path, sizeof path, "%.*s%.*s", static_cast<int>(folder.size()),
               folder.data(), static_cast<int>(name.size()), name.data());
  return length > 0 && length < PATH_MAX && access(path, R_OK) == 0 ? path : file;
}

// The name to open instead of `file`, which code at `caller` asks for.
const char* Redirect(const char* file, const void* caller) {
  if (file == nullptr)
    return file;
  if (std::string_view(file).starts_with(kCompilerBuiltins)) {
    const std::string_view folder = CompilerFolder(caller);
    return folder.empty() ? file : InFolder(folder, file, file);
  }
  const std::string_view stand_in = StandInFor(file);
  if (stand_in.empty() || (stand_in != "libnccl.so.2" && HasRealGpu()))
    return file;
  // Where this build lacks the stand-in, the program's own name stands.
  return InFolder(OwnFolder(), stand_in, file);
}

}  // namespace
}  // namespace vrank::host

// The real dlopen finds out from its return address whose RUNPATH to search, so it must
// be jumped to and not called: hence a tail call, made certain by the optimisation
// level.
extern "C" VRANK_EXPORT __attribute__((optimize("O2"))) void* dlopen(
    const char* file, int mode) noexcept {
  return vrank::host::Real().dlopen(
      vrank::host::Redirect(file, __builtin_return_address(0)), mode);
}
