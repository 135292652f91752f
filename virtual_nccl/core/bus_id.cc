#include "virtual_nccl/core/bus_id.h"

#include <dlfcn.h>

#include <charconv>
#include <string>

namespace vrank::nccl {

uint64_t ParseBusId(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c != ':' && c != '.')
      digits += c;
  uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

uint64_t BusIdOf(int device) {
  using Get = int (*)(char* text, int length, int device);
  // A libcuda.so.1 that the runtime has opened by itself is not in the global scope.
  auto* get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "cuDeviceGetPCIBusId"));
  if (get == nullptr)
    if (void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD))
      get = reinterpret_cast<Get>(dlsym(library, "cuDeviceGetPCIBusId"));
  char text[64] = "";
  return get != nullptr && get(text, sizeof text, device) == 0 ? ParseBusId(text) : 0;
}

}  // namespace vrank::nccl
