#include "virtual_host/system/library_code.h"

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

class LibraryCodeTest : public testing::Test {
 protected:
  // The code of a library of this name.
  const void* CodeIn(const std::string& name) {
    const std::string path = folder_.File(name);
    std::filesystem::copy_file(kSomeLibrary, path);
    const void* const code = CodeOf(path);
    EXPECT_NE(code, nullptr);
    return code;
  }

  const std::string kSomeLibrary =
      std::filesystem::read_symlink("/proc/self/exe").parent_path().string() +
      "/libstand_in.so";
  emulator::TemporaryFolder folder_;
};

TEST_F(LibraryCodeTest, NvrtcIsACompiler) {
  const void* const compiler = CodeIn("libnvrtc.so.13");
  EXPECT_TRUE(IsCompilerCode(compiler));
  EXPECT_EQ(CompilerFolder(compiler), folder_.File(""));
  EXPECT_EQ(CompilerFolder(CodeOf(kSomeLibrary)), "");
  EXPECT_FALSE(IsCompilerCode(CodeOf(kSomeLibrary)));
  EXPECT_FALSE(IsCompilerCode(reinterpret_cast<const void*>(&CodeOf)));
  EXPECT_FALSE(IsCompilerCode(nullptr));
}

TEST_F(LibraryCodeTest, PyTorchHasSeveralLibraries) {
  for (const char* name : {"libtorch_cpu.so", "libtorch_python.so", "libc10_cuda.so"})
    EXPECT_TRUE(IsTorchCode(CodeIn(name))) << name;
  EXPECT_FALSE(IsTorchCode(CodeOf(kSomeLibrary)));
  EXPECT_FALSE(IsTorchCode(nullptr));
}

TEST_F(LibraryCodeTest, OpenMpMakesTeamsAndMathLibrariesYield) {
  const void* const openmp = CodeIn("libgomp-abc.so.1");
  EXPECT_TRUE(IsTeamCode(openmp));
  EXPECT_TRUE(IsMathCode(openmp));
  const void* const math = CodeIn("libtorch_cpu.so");
  EXPECT_FALSE(IsTeamCode(math));
  EXPECT_TRUE(IsMathCode(math));
  EXPECT_FALSE(IsMathCode(CodeOf(kSomeLibrary)));
  EXPECT_FALSE(IsMathCode(nullptr));
}

}  // namespace
}  // namespace vrank::host
