// Which releases of PyTorch and of libraries beside it a running process has, for the
// provenance of results.
//
// Thread rule: reads /proc and the file system; no state.

#ifndef VRANK_EMULATOR_LAUNCH_LOADED_SOFTWARE_H_
#define VRANK_EMULATOR_LAUNCH_LOADED_SOFTWARE_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace vrank::emulator {

// Name -> version: "PyTorch" and "Python" where the process has loaded them; with
// PyTorch, what is installed in the same site-packages of NCCL and of libraries that
// train models ("transformers"). Empty where the process cannot be read.
std::map<std::string, std::string> LoadedSoftware(pid_t pid);

// The same by the files that the process has mapped.
std::map<std::string, std::string> SoftwareOfFiles(
    const std::vector<std::string>& mapped);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_LOADED_SOFTWARE_H_
