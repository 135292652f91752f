// Profiles in files that go with the test.
//
// Thread rule: one thread.

#ifndef VRANK_TESTS_GRAPH_IMPORT_PROFILE_FILES_H_
#define VRANK_TESTS_GRAPH_IMPORT_PROFILE_FILES_H_

#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace vrank::graph {

class ProfileFiles {
 public:
  ProfileFiles() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "vrank-profiles-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      std::abort();
    folder_ = pattern;
  }
  ~ProfileFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ProfileFiles(const ProfileFiles&) = delete;
  ProfileFiles& operator=(const ProfileFiles&) = delete;

  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    FILE* file = std::fopen(PathOf(name).c_str(), "wb");
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
    return PathOf(name);
  }
  std::string WriteGz(const std::string& name, const std::string& text) const {
    gzFile file = gzopen(PathOf(name).c_str(), "wb6");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return PathOf(name);
  }

 private:
  std::string folder_;
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_IMPORT_PROFILE_FILES_H_
