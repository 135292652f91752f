#include "virtual_host/system/library_code.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

namespace vrank::host {
namespace {

// The path of the library that the code lies in; empty for the program's own.
std::string_view PathOf(const void* code) {
  dl_find_object object;
  // Takes no lock, unlike dladdr: a thread that holds the loader's may wait for us.
  if (_dl_find_object(const_cast<void*>(code), &object) != 0 ||
      object.dlfo_link_map->l_name == nullptr)
    return {};
  return object.dlfo_link_map->l_name;
}

// Its folder, with the slash at the end.
std::string_view FolderOf(std::string_view path) {
  return path.substr(0, path.rfind('/') + 1);
}

std::string_view LibraryOf(const void* code) {
  const std::string_view path = PathOf(code);
  return path.substr(FolderOf(path).size());
}

bool IsTeamLibrary(std::string_view name) {
  return name.starts_with("libgomp") || name.starts_with("libiomp5") ||
         name.starts_with("libomp");
}

}  // namespace

bool IsCompilerCode(const void* code) {
  return LibraryOf(code).starts_with("libnvrtc");
}

std::string_view CompilerFolder(const void* code) {
  return IsCompilerCode(code) ? FolderOf(PathOf(code)) : std::string_view();
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
