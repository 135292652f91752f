#include "virtual_host/compiler_code.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

namespace vrank::host {

bool IsCompilerCode(const void* code) {
  dl_find_object object;
  // Takes no lock, unlike dladdr: a thread that holds the loader's may wait for us.
  if (_dl_find_object(const_cast<void*>(code), &object) != 0 ||
      object.dlfo_link_map->l_name == nullptr)
    return false;
  const std::string_view path = object.dlfo_link_map->l_name;
  const size_t slash = path.rfind('/');
  return path.substr(slash == path.npos ? 0 : slash + 1).starts_with("libnvrtc");
}

}  // namespace vrank::host
