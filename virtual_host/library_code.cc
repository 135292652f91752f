#include "virtual_host/library_code.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

namespace vrank::host {
namespace {

// The file name of the library that the code lies in; empty for the program's own.
std::string_view LibraryOf(const void* code) {
  dl_find_object object;
  // Takes no lock, unlike dladdr: a thread that holds the loader's may wait for us.
  if (_dl_find_object(const_cast<void*>(code), &object) != 0 ||
      object.dlfo_link_map->l_name == nullptr)
    return {};
  const std::string_view path = object.dlfo_link_map->l_name;
  const size_t slash = path.rfind('/');
  return path.substr(slash == path.npos ? 0 : slash + 1);
}

bool IsTeamLibrary(std::string_view name) {
  return name.starts_with("libgomp") || name.starts_with("libiomp5") ||
         name.starts_with("libomp");
}

}  // namespace

bool IsCompilerCode(const void* code) {
  return LibraryOf(code).starts_with("libnvrtc");
}

bool IsTorchCode(const void* code) {
  const std::string_view name = LibraryOf(code);
  return name.starts_with("libtorch") || name.starts_with("libc10");
}

bool IsTeamCode(const void* code) {
  return IsTeamLibrary(LibraryOf(code));
}

bool IsMathCode(const void* code) {
  const std::string_view name = LibraryOf(code);
  return IsTeamLibrary(name) || name.starts_with("libtorch_cpu") ||
         name.starts_with("libmkl_") || name.starts_with("libopenblas");
}

}  // namespace vrank::host
