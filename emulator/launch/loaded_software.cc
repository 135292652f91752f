#include "emulator/launch/loaded_software.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

namespace fs = std::filesystem;

// Distributions as pip names their folders, without the version. Sorted.
constexpr std::string_view kListed[] = {
    "accelerate",    "bitsandbytes", "deepspeed",
    "flash_attn",    "lightning",    "litgpt",
    "megatron_core", "peft",         "pytorch_lightning",
    "torchao",       "torchtitan",   "transformer_engine",
    "transformers",  "triton",       "trl"};
constexpr std::string_view kNccl = "nvidia_nccl_cu";  // + CUDA's major version
constexpr std::string_view kDistInfo = ".dist-info";

// "2.11.0+cu130" of `__version__ = '2.11.0+cu130'`.
std::string VersionIn(const fs::path& version_py) {
  std::ifstream file(version_py);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("__version__"))
      continue;
    const size_t begin = line.find_first_of("'\"");
    if (begin == std::string::npos)
      continue;
    const size_t end = line.find(line[begin], begin + 1);
    if (end != std::string::npos)
      return line.substr(begin + 1, end - begin - 1);
  }
  return "";
}

void AddInstalled(const fs::path& site_packages,
                  std::map<std::string, std::string>* software) {
  std::error_code error;
  for (fs::directory_iterator entry(site_packages, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string folder = entry->path().filename().string();
    if (!folder.ends_with(kDistInfo))
      continue;
    const size_t dash = folder.find('-');
    const std::string name = folder.substr(0, dash);
    const std::string version =
        folder.substr(dash + 1, folder.size() - kDistInfo.size() - dash - 1);
    if (name.starts_with(kNccl))
      (*software)["NCCL"] = version;
    else if (std::find(std::begin(kListed), std::end(kListed), name) !=
             std::end(kListed))
      (*software)[name] = version;
  }
}

// "3.11" of libpython3.11.so.1.0 and of python3.11; empty for others.
std::string PythonVersion(std::string name) {
  if (name.starts_with("lib"))
    name.erase(0, 3);
  constexpr std::string_view kPython = "python";
  if (!name.starts_with(kPython))
    return "";
  name.erase(0, kPython.size());
  const size_t end = name.find_first_not_of("0123456789.");
  name = name.substr(0, end);
  if (const size_t library = name.find_last_not_of('.'); library != std::string::npos)
    name = name.substr(0, library + 1);
  return name.find('.') == std::string::npos ? "" : name;
}

}  // namespace

std::map<std::string, std::string> SoftwareOfFiles(
    const std::vector<std::string>& mapped) {
  std::map<std::string, std::string> software;
  for (const std::string& file : mapped) {
    const fs::path path(file);
    if (const std::string python = PythonVersion(path.filename()); !python.empty())
      software["Python"] = python;
    if (path.filename() != "libtorch_cpu.so")
      continue;
    const fs::path torch = path.parent_path().parent_path();
    if (const std::string version = VersionIn(torch / "version.py"); !version.empty())
      software["PyTorch"] = version;
    AddInstalled(torch.parent_path(), &software);
  }
  return software;
}

std::map<std::string, std::string> LoadedSoftware(pid_t pid) {
  std::set<std::string> mapped;
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);)
    if (const size_t path = line.find('/'); path != std::string::npos)
      mapped.insert(line.substr(path));
  return SoftwareOfFiles({mapped.begin(), mapped.end()});
}

}  // namespace vrank::emulator
