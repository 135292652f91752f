#include "tools/machine/cuda_search.h"

#include <stdio.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

namespace vrank::tools {
namespace {

namespace fs = std::filesystem;

// "2.28.9" as numbers, so that 2.9 comes before 2.28.
std::vector<int> Numbers(const std::string& version) {
  std::vector<int> numbers;
  std::istringstream in(version);
  for (std::string part; std::getline(in, part, '.');)
    numbers.push_back(atoi(part.c_str()));
  return numbers;
}

}  // namespace

std::optional<FoundLibrary> FindLibrary(const std::string& name,
                                        const std::vector<std::string>& folders) {
  std::optional<FoundLibrary> best;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      const std::string file = entry.path().filename().string();
      if (file.rfind(name, 0) != 0)
        continue;
      const std::string rest = file.substr(name.size());
      if (!rest.empty() && rest.find_first_not_of(".0123456789") != std::string::npos)
        continue;
      const std::string version = rest.empty() ? "" : rest.substr(1);
      if (!best.has_value() || Numbers(version) > Numbers(best->version))
        best = FoundLibrary{entry.path().string(), version};
    }
  }
  return best;
}

std::vector<std::string> LibraryFolders() {
  std::vector<std::string> folders;
  if (const char* path = getenv("LD_LIBRARY_PATH")) {
    std::istringstream in(path);
    for (std::string folder; std::getline(in, folder, ':');)
      if (!folder.empty())
        folders.push_back(folder);
  }
  if (const char* home = getenv("CUDA_HOME"))
    folders.push_back(std::string(home) + "/lib64");
  for (const char* folder :
       {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"})
    folders.push_back(folder);
  return folders;
}

std::optional<int> DefinedNumber(const std::string& header, const std::string& macro,
                                 const std::vector<std::string>& folders) {
  std::vector<std::string> places;
  for (const std::string& folder : folders)
    places.push_back(folder + "/../include/" + header);
  places.push_back("/usr/include/" + header);
  for (const std::string& place : places) {
    std::ifstream file(place);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string define, name;
      int number = 0;
      if (words >> define >> name >> number && define == "#define" && name == macro)
        return number;
    }
  }
  return std::nullopt;
}

std::optional<std::map<std::string, std::string>> PythonPackages(
    const std::vector<std::string>& names) {
  // Asked for by name, so that no package is imported. Without the working directory:
  // a file there may have any name.
  std::string list;
  for (const std::string& name : names)
    list += fmt::format("\"{}\",", name);
  const std::string command = fmt::format(
      "timeout 10 python3 -c 'import sys\n"
      "sys.path.pop(0)\n"
      "from importlib import metadata as m\n"
      "print(\"python\", sys.version.split()[0])\n"
      "for n in [{}]:\n"
      "  try: print(n, m.version(n))\n"
      "  except m.PackageNotFoundError: pass\n"
      "try:\n"
      "  import re\n"
      "  text = "
      "m.distribution(\"torch\").locate_file(\"torch/version.py\").read_text()\n"
      "  print(\"torch.cuda\", re.search(\"cuda.*= .([0-9.]+)\", text)[1])\n"
      "except Exception: pass' 2>/dev/null",
      list);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (pipe == nullptr)
    return std::nullopt;
  std::string text;
  std::array<char, 512> buffer;
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), got);
  std::map<std::string, std::string> found;
  std::istringstream in(text);
  for (std::string name, version; in >> name >> version;)
    found[name] = version;
  if (found.empty())
    return std::nullopt;
  return found;
}

}  // namespace vrank::tools
