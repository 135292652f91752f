// A folder that lasts as long as a test.

#ifndef VRANK_TESTS_EMULATOR_LAUNCH_TEMPORARY_FOLDER_H_
#define VRANK_TESTS_EMULATOR_LAUNCH_TEMPORARY_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace vrank::emulator {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "vrank-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text,
                    bool executable = false) const {
    std::ofstream(File(name)) << text;
    if (executable)
      std::filesystem::permissions(File(name), std::filesystem::perms::owner_all);
    return File(name);
  }
  std::string Read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(File(name)).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

}  // namespace vrank::emulator

#endif  // VRANK_TESTS_EMULATOR_LAUNCH_TEMPORARY_FOLDER_H_
