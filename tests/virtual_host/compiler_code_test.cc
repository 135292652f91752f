#include "virtual_host/compiler_code.h"

#include <dlfcn.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/emulator/launch/temporary_folder.h"

namespace vrank::host {
namespace {

// The code of a library that is opened under this name.
const void* CodeOf(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW);
  return library == nullptr ? nullptr : dlsym(library, "vrank_test_stand_in");
}

TEST(CompilerCodeTest, IsThatOfNvrtc) {
  const std::string some_library =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().string() +
      "/libstand_in.so";
  emulator::TemporaryFolder folder;
  const std::string nvrtc = folder.File("libnvrtc.so.13");
  std::filesystem::copy_file(some_library, nvrtc);
  ASSERT_NE(CodeOf(nvrtc), nullptr);
  EXPECT_TRUE(IsCompilerCode(CodeOf(nvrtc)));
  ASSERT_NE(CodeOf(some_library), nullptr);
  EXPECT_FALSE(IsCompilerCode(CodeOf(some_library)));
  EXPECT_FALSE(IsCompilerCode(reinterpret_cast<const void*>(&CodeOf)));
  EXPECT_FALSE(IsCompilerCode(nullptr));
}

}  // namespace
}  // namespace vrank::host
