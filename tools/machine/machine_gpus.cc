#include "tools/machine/machine_gpus.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace vrank::tools {
namespace {

bool IsGpuFile(std::string_view name) {
  constexpr std::string_view kDriver = "nvidia";
  return name.starts_with(kDriver) && name.size() > kDriver.size() &&
         name.find_first_not_of("0123456789", kDriver.size()) == std::string_view::npos;
}

}  // namespace

uint32_t CountMachineGpus() {
  uint32_t gpus = 0;
  if (const char* const visible = getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    bool in_name = false;
    for (const char* c = visible; *c != '\0'; ++c) {
      gpus += *c != ',' && !in_name ? 1 : 0;
      in_name = *c != ',';
    }
    return gpus;
  }
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored))
    gpus += IsGpuFile(entry.path().filename().string()) ? 1 : 0;
  return gpus;
}

std::string NameMachineGpus(const std::string& folder) {
  constexpr std::string_view kModel = "Model:";
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    std::ifstream file(entry.path() / "information");
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with(kModel))
        continue;
      const size_t name = line.find_first_not_of(" \t", kModel.size());
      if (name != std::string::npos)
        names.insert(line.substr(name));
    }
  }
  std::string all;
  for (const std::string& name : names)
    all += (all.empty() ? "" : ", ") + name;
  return all;
}

}  // namespace vrank::tools
