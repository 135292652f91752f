#include "emulator/launch/rank_environment.h"

#include <unistd.h>

#include <map>
#include <string_view>

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

// Separators in LD_PRELOAD, which knows no quoting.
constexpr std::string_view kPreloadSeparators = " :\t\n";

// What execvp searches where PATH is unset: confstr(_CS_PATH) of glibc.
constexpr const char* kDefaultPath = "/bin:/usr/bin";

std::vector<std::string> PreloadedLibraries(const LaunchOptions& options) {
  std::vector<std::string> libraries = options.preload;
  if (options.real_gpu)
    libraries = {"libvrank_host.so", "libnccl.so.2"};
  libraries.insert(libraries.end(), options.preload_tools.begin(),
                   options.preload_tools.end());
  return libraries;
}

std::string Preload(const LaunchOptions& options, const std::string& already) {
  std::string all;
  for (const std::string& library : PreloadedLibraries(options))
    all +=
        fmt::format("{}{}/{}", all.empty() ? "" : ":", options.guest_folder, library);
  if (!already.empty())
    all += (all.empty() ? "" : ":") + already;
  return all;
}

// "python3.11 train.py", "torchrun ...", "./train.py".
bool IsPython(const std::vector<std::string>& command) {
  if (command.empty())
    return false;
  const std::string_view path = command[0];
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("python") || name == "torchrun" || name.ends_with(".py");
}

std::map<std::string, std::string> OwnEnvironment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return variables;
}

}  // namespace

absl::Status CheckGuestFolder(const LaunchOptions& options) {
  if (options.guest_folder.find_first_of(kPreloadSeparators) != std::string::npos) {
    return absl::FailedPreconditionError(
        fmt::format("guest libraries '{}': the loader cannot preload from a path with "
                    "spaces or colons; install vrank elsewhere",
                    options.guest_folder));
  }
  for (const std::string& library : PreloadedLibraries(options)) {
    const std::string path = fmt::format("{}/{}", options.guest_folder, library);
    if (access(path.c_str(), R_OK) != 0) {
      return absl::NotFoundError(fmt::format(
          "guest library '{}': not found; build or install vrank completely", path));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> RankEnvironment(const LaunchOptions& options,
                                         const RankPlace& place) {
  std::map<std::string, std::string> variables = OwnEnvironment();
  auto set = [&](const char* name, const auto& value) {
    variables[name] = fmt::format("{}", value);
  };
  // What it says of this machine's GPUs is nothing to the emulated node's. A launcher
  // or a script behind vrank may set it.
  if (!options.real_gpu)
    variables.erase("CUDA_VISIBLE_DEVICES");
  if (!options.launcher.empty()) {
    set("VRANK_LAUNCHER", options.master_port);
    // torchrun's own store would take port 29500, which another job may have; the ranks
    // meet at vrank's store, so that any free port does. A port that the user asks for
    // (--master-port, or this variable) wins.
    variables.emplace("PET_MASTER_PORT", "0");
  } else {
    set("RANK", place.rank);
    set("WORLD_SIZE", place.world_size);
    set("LOCAL_RANK", place.local_rank);
    set("LOCAL_WORLD_SIZE", place.local_world_size);
    set("MASTER_ADDR", options.master_address);
    set("MASTER_PORT", options.master_port);
    if (!IsPython(options.command))
      set("NCCL_COMM_ID", options.nccl_comm_id);
    // PyTorch's name for "somebody else hosts the store": rank 0 is a client like
    // others.
    set("TORCHELASTIC_USE_AGENT_STORE", "True");
    set("VRANK_RANK", place.rank);
  }
  set("VRANK_SOCKET", options.socket_address);
  set("LD_PRELOAD", Preload(options, variables["LD_PRELOAD"]));
  // AddressSanitizer's runtime, where it is a shared library, ends a program in which
  // it does not come first. It works behind the preloaded libraries as well: what they
  // interpose they hand on to the next library. The user's own options come last and
  // win.
  const std::string sanitizer = variables["ASAN_OPTIONS"];
  set("ASAN_OPTIONS",
      "verify_asan_link_order=0" + (sanitizer.empty() ? "" : ":" + sanitizer));
  const std::string ranges = options.guest_folder + "/libvrank_host.so";
  if (options.real_gpu) {
    set("VRANK_REAL_GPU", options.real_time_origin_ns);
    variables.emplace("NVTX_INJECTION64_PATH", ranges);  // a profiler's own wins
  } else {
    set("NVTX_INJECTION64_PATH", ranges);
    // Triton links what it makes with libcuda, and would ask ldconfig where that is.
    variables.emplace("TRITON_LIBCUDA_PATH", options.guest_folder);
    // nvidia-smi of the emulated node, in place of this machine's.
    const auto path = variables.emplace("PATH", kDefaultPath).first;
    path->second = fmt::format("{}/bin:{}", options.guest_folder, path->second);
  }
  // Hash order is part of what Python programs do, down to the order of allocations.
  variables.emplace("PYTHONHASHSEED", "0");
  for (const auto& [name, value] : options.variables)
    variables[name] = value;
  if (const auto own = options.rank_variables.find(place.rank);
      own != options.rank_variables.end())
    for (const auto& [name, value] : own->second)
      variables[name] = value;

  std::vector<std::string> result;
  result.reserve(variables.size());
  for (const auto& [name, value] : variables)
    result.push_back(fmt::format("{}={}", name, value));
  return result;
}

}  // namespace vrank::emulator
