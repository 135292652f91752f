#include "virtual_gpu/core/visible_devices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>

#include "virtual_gpu/core/device_attributes.h"

namespace vrank::gpu {
namespace {

constexpr std::string_view kUuidPrefix = "GPU-";

std::string UuidText(const protocol::Settings& settings, int device) {
  unsigned char uuid[16];
  DeviceUuid(settings, device, uuid);
  std::string text(kUuidPrefix);
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", uuid[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10)
      text += '-';
    text += digits;
  }
  return text;
}

// -1: no device, or several.
int FindByUuid(const protocol::Settings& settings, std::string_view beginning) {
  int found = -1;
  if (!beginning.starts_with(kUuidPrefix))
    return -1;
  for (int device = 0; device < static_cast<int>(settings.devices); ++device) {
    if (!UuidText(settings, device).starts_with(beginning))
      continue;
    if (found >= 0)
      return -1;
    found = device;
  }
  return found;
}

// -1: no number, or no device's.
int FindByIndex(const protocol::Settings& settings, std::string_view number) {
  const std::string text(number);
  char* end = nullptr;
  const long index = strtol(text.c_str(), &end, 10);
  return end != text.c_str() && index >= 0 && index < long{settings.devices}
             ? static_cast<int>(index)
             : -1;
}

std::string_view WithoutBlanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

std::vector<int> VisibleDevices(const protocol::Settings& settings,
                                const char* variable) {
  std::vector<int> visible;
  if (variable == nullptr) {
    visible.resize(settings.devices);
    std::iota(visible.begin(), visible.end(), 0);
    return visible;
  }
  std::string_view rest = variable;
  const bool by_uuid = WithoutBlanks(rest).starts_with(kUuidPrefix);
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view entry = WithoutBlanks(rest.substr(0, comma));
    const int device =
        by_uuid ? FindByUuid(settings, entry) : FindByIndex(settings, entry);
    if (device < 0)
      return visible;
    if (std::find(visible.begin(), visible.end(), device) != visible.end())
      return {};
    visible.push_back(device);
    if (comma == std::string_view::npos)
      return visible;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace vrank::gpu
