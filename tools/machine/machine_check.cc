#include "tools/machine/machine_check.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "base/machine_memory.h"
#include "emulator/launch/rank_environment.h"
#include "tools/machine/cuda_search.h"
#include "tools/machine/installation.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

// A rank's segment, its share of vrank and a small C++ program; a Python one with
// PyTorch needs about ten times that.
constexpr double kBytesPerRank = 64.0 * (1 << 20);
// Descriptors of vrank per real rank: segment, socket, output, error, pidfd, logs.
constexpr uint64_t kFilesPerRank = 8;
constexpr const char* kTestedTorch[] = {"2.11.", "2.14.", "2.15."};
// Stages of the demo: as many ranks run for real.
constexpr uint64_t kRanksWanted = 16;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

MachineFinding Cores() {
  cpu_set_t set;
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  if (cores > 1)
    return {"cores", Health::kFine, fmt::format("{} usable", cores), ""};
  return {"cores", Health::kLimited, "1 usable",
          "results are the same, but every question of a rank costs two wake-ups; a "
          "second core makes runs several times faster"};
}

MachineFinding Memory() {
  const MachineMemory memory = ReadMachineMemory();
  const auto bytes = [](uint64_t count) {
    return FormatBytes(static_cast<double>(count));
  };
  std::string found =
      fmt::format("{} of {} available", bytes(memory.available), bytes(memory.total));
  if (memory.of_container)
    found += fmt::format(", {} of it in this container", bytes(*memory.of_container));
  if (memory.of_process)
    found += fmt::format(", {} by ulimit -v", bytes(*memory.of_process));
  const auto available = static_cast<double>(memory.least());
  if (available >= kBytesPerRank * kRanksWanted)
    return {"memory", Health::kFine, found, "", /*is_reading=*/true};
  return {
      "memory", Health::kLimited, found,
      fmt::format("room for about {:.0f} real ranks at a time; name fewer with --real",
                  std::max(available / kBytesPerRank, 1.0)),
      /*is_reading=*/true};
}

MachineFinding SharedMemory() {
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) != 0)
    return {"shared memory", Health::kFine, "no /dev/shm; vrank does not use it", ""};
  const double bytes =
      static_cast<double>(shm.f_blocks) * static_cast<double>(shm.f_frsize);
  return {"shared memory", Health::kFine,
          fmt::format("/dev/shm of {}; vrank does not use it", FormatBytes(bytes)), ""};
}

// Only graphs that a command makes for itself go there.
MachineFinding TemporaryFiles() {
  constexpr char kTopic[] = "temporary files";
  const char* const stated = getenv("TMPDIR");
  const std::string place = stated != nullptr && *stated != '\0' ? stated : "/tmp";
  struct statvfs disk {};
  if (statvfs(place.c_str(), &disk) != 0 || access(place.c_str(), W_OK | X_OK) != 0)
    return {kTopic, Health::kLimited, fmt::format("none can be made in {}", place),
            "`vrank demo` and `vrank validate --via-graph` need some; set TMPDIR to a "
            "place with room"};
  const double bytes =
      static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  return {kTopic, Health::kFine,
          fmt::format("in {}, with room for {}", place, FormatBytes(bytes)), ""};
}

MachineFinding Kernel() {
  utsname name{};
  uname(&name);
  const std::string found =
      fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  const int fd = memfd_create("vrank-doctor", MFD_CLOEXEC);
  const bool memory = fd >= 0 && ftruncate(fd, 1 << 20) == 0;
  if (fd >= 0)
    close(fd);
  if (!memory)
    return {"kernel", Health::kMissing, found + ", without memfd_create",
            "ranks reach vrank through a memfd; the kernel (3.17 or later) or the "
            "container's seccomp profile has to permit memfd_create"};
  if (access("/proc/self/task", R_OK) != 0)
    return {"kernel", Health::kMissing, found + ", without /proc", "mount /proc"};
  return {"kernel", Health::kFine, found, ""};
}

MachineFinding AddressSpace() {
  // What a virtual GPU of 80 GB reserves, and never touches as a whole.
  constexpr size_t kReserve = size_t{256} << 30;
  void* const arena = mmap(nullptr, kReserve, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED)
    return {
        "address space", Health::kMissing, "256 GiB cannot be reserved",
        "device memory is address space that costs no memory until it is touched: "
        "lift the limit (ulimit -v unlimited), and set vm.overcommit_memory to 0 or 1"};
  munmap(arena, kReserve);
  const int current = personality(0xffffffff);
  const bool fixed = current != -1 && personality(static_cast<unsigned long>(current) |
                                                  ADDR_NO_RANDOMIZE) != -1;
  if (fixed)
    personality(static_cast<unsigned long>(current));
  if (!fixed)
    return {
        "address space", Health::kLimited, "addresses are random in every run",
        "programs whose behaviour depends on host addresses may differ between runs; "
        "permit personality(ADDR_NO_RANDOMIZE) in the container's seccomp profile"};
  return {"address space", Health::kFine,
          "256 GiB can be reserved, addresses can be fixed", ""};
}

MachineFinding Files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const uint64_t ranks = limit.rlim_cur / kFilesPerRank;
  const std::string found =
      limit.rlim_cur == RLIM_INFINITY ? "no limit" : fmt::format("{}", limit.rlim_cur);
  if (ranks >= kRanksWanted)
    return {"open files", Health::kFine, found, ""};
  return {
      "open files", Health::kLimited, found,
      fmt::format("enough for about {} real ranks; raise it with ulimit -n", ranks)};
}

MachineFinding Debugging() {
  const std::string scope = FirstLine("/proc/sys/kernel/yama/ptrace_scope");
  if (scope.empty() || scope == "0" || geteuid() == 0)
    return {"debugging", Health::kFine, "gdb can attach to a running rank", ""};
  return {
      "debugging", Health::kLimited, fmt::format("ptrace_scope is {}", scope),
      "gdb cannot attach to a running rank of yours; start the rank under it, or set "
      "kernel.yama.ptrace_scope to 0"};
}

MachineFinding GuestLibraries() {
  const auto installation = FindInstallation();
  if (!installation.ok())
    return {"guest libraries", Health::kMissing, "not found",
            std::string(installation.status().message())};
  const auto folder = FindGuestFolder(*installation);
  if (!folder.ok())
    return {"guest libraries", Health::kMissing, "not found",
            std::string(folder.status().message())};
  emulator::LaunchOptions options;
  options.guest_folder = *folder;
  if (const absl::Status status = emulator::CheckGuestFolder(options); !status.ok())
    return {"guest libraries", Health::kMissing, "incomplete",
            std::string(status.message())};
  return {"guest libraries", Health::kFine,
          fmt::format("{} in {}", options.preload.size(), *folder), ""};
}

MachineFinding Gpu() {
  if (access("/dev/nvidia0", F_OK) != 0)
    return {"gpu", Health::kFine,
            "none: ranks run on virtual ones, and what a kernel would compute is zero",
            ""};
  return {"gpu", Health::kFine,
          "there is one: `vrank emulate --real-gpu` runs real ranks on it, and "
          "`vrank kernels` times kernels on it; driver " +
              FirstLine("/proc/driver/nvidia/version"),
          ""};
}

MachineFinding Cuda() {
  const std::vector<std::string> folders = LibraryFolders();
  // 13000: 13.0, see cuda.h.
  const auto toolkit = DefinedNumber("cuda.h", "CUDA_VERSION", folders);
  std::string found = "no toolkit";
  if (toolkit.has_value())
    found = fmt::format("toolkit {}.{}", *toolkit / 1000, *toolkit % 1000 / 10);
  if (const auto runtime = FindLibrary("libcudart.so", folders); runtime.has_value())
    found += ", " + runtime->path;
  return {"cuda", Health::kFine,
          found + "; programs run on vrank's own, which stand in for CUDA 13", ""};
}

MachineFinding Nccl() {
  const std::vector<std::string> folders = LibraryFolders();
  // 22809: 2.28.9, see nccl.h.
  const auto version = DefinedNumber("nccl.h", "NCCL_VERSION_CODE", folders);
  std::string found = "no header";
  if (version.has_value())
    found =
        fmt::format("{}.{}.{}", *version / 10000, *version / 100 % 100, *version % 100);
  if (const auto library = FindLibrary("libnccl.so", folders); library.has_value())
    found += ", " + library->path;
  return {"nccl", Health::kFine,
          found + "; programs run on vrank's own, which stands in for NCCL 2.28", ""};
}

MachineFinding Torch() {
  const auto packages =
      PythonPackages({"torch", "nvidia-nccl-cu13", "nvidia-nccl-cu12"});
  if (!packages.has_value())
    return {"pytorch", Health::kFine, "no python3 on PATH", ""};
  const auto torch = packages->find("torch");
  const std::string python = "python " + packages->at("python");
  if (torch == packages->end())
    return {"pytorch", Health::kFine, python + ", no torch", ""};
  std::string found = fmt::format("{}, torch {}", python, torch->second);
  for (const char* nccl : {"nvidia-nccl-cu13", "nvidia-nccl-cu12"})
    if (packages->count(nccl) != 0)
      found += fmt::format(", {} {}", nccl, packages->at(nccl));
  const auto cuda = packages->find("torch.cuda");
  const std::string version = cuda == packages->end() ? "" : cuda->second;
  found += version.empty() ? ", not for CUDA" : ", for CUDA " + version;
  if (version.rfind("13.", 0) != 0)
    return {"pytorch", Health::kLimited, found,
            "no real rank: vrank stands in for CUDA 13; install a build for it"};
  // docs/limitations.md, "Versions".
  const bool tested = std::any_of(
      std::begin(kTestedTorch), std::end(kTestedTorch),
      [&](const char* release) { return torch->second.rfind(release, 0) == 0; });
  if (!tested)
    return {
        "pytorch", Health::kLimited, found,
        "2.11, 2.14 and 2.15 were tested, no other version: what its kernels cost may "
        "count as assumed, and what it calls may be refused by name"};
  return {"pytorch", Health::kFine, found + "; supported", ""};
}

}  // namespace

std::vector<MachineFinding> CheckMachine() {
  return {Cores(),        Memory(), SharedMemory(), TemporaryFiles(), Kernel(),
          AddressSpace(), Files(),  Debugging(),    GuestLibraries(), Gpu(),
          Cuda(),         Nccl(),   Torch()};
}

}  // namespace vrank::tools
