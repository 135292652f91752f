// Which CUDA, NCCL and PyTorch a machine has, found without loading any of them.
//
// Thread rule: reads the file system and starts python3; no state.

#ifndef VRANK_TOOLS_MACHINE_CUDA_SEARCH_H_
#define VRANK_TOOLS_MACHINE_CUDA_SEARCH_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vrank::tools {

// The newest file of this name in the folders, by what follows it: for "libnccl.so"
// both libnccl.so.2 and libnccl.so.2.28.9, of which it is the second.
struct FoundLibrary {
  std::string path;
  std::string version;  // "2.28.9"; empty: the name says none
};
std::optional<FoundLibrary> FindLibrary(const std::string& name,
                                        const std::vector<std::string>& folders);

// Where the loader and nvcc look: LD_LIBRARY_PATH, CUDA_HOME, /usr/local/cuda, the
// system's folders.
std::vector<std::string> LibraryFolders();

// What a header in include/ beside the folders, or in /usr/include, defines a macro as:
// NCCL_VERSION_CODE of nccl.h.
std::optional<int> DefinedNumber(const std::string& header, const std::string& macro,
                                 const std::vector<std::string>& folders);

// Versions of those of the named distributions that the python3 on PATH has, its own as
// "python", and of the CUDA that its torch was built for as "torch.cuda"; nothing where
// there is no python3.
std::optional<std::map<std::string, std::string>> PythonPackages(
    const std::vector<std::string>& names);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_MACHINE_CUDA_SEARCH_H_
