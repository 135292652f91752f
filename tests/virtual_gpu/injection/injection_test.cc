// CUDA_INJECTION64_PATH, as the driver treats it. Each case is a process of its own: a
// tool is started once in the life of one.

#include "virtual_gpu/api/driver/injection.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/guest/export.h"

// Called by the tool while it starts: tools call cuInit.
extern "C" VRANK_EXPORT void during_injection() {
  vrank::gpu::InjectTool();
}

namespace vrank::gpu {
namespace {

// Ends the process with the number of times that the tool was started.
[[noreturn]] void InjectAndExit(const char* path) {
  if (path != nullptr)
    setenv("CUDA_INJECTION64_PATH", path, 1);
  InjectTool();
  InjectTool();
  void* tool = dlopen(VRANK_INJECTED_TOOL, RTLD_NOW);
  _exit(*static_cast<int*>(dlsym(tool, "injections")));
}

TEST(InjectionTest, StartsTheToolOnce) {
  EXPECT_EXIT(InjectAndExit(VRANK_INJECTED_TOOL), ::testing::ExitedWithCode(1), "^$");
}

TEST(InjectionTest, StartsNothingWhereNoToolIsNamed) {
  EXPECT_EXIT(InjectAndExit(nullptr), ::testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(InjectAndExit(""), ::testing::ExitedWithCode(0), "^$");
  EXPECT_EXIT(InjectAndExit("none"), ::testing::ExitedWithCode(0), "^$");
}

TEST(InjectionTest, GoesOnWithoutAToolThatIsNone) {
  EXPECT_EXIT(InjectAndExit("/nowhere/tool.so"), ::testing::ExitedWithCode(0),
              "cannot open the tool .*nowhere");
  EXPECT_EXIT(InjectAndExit("libc.so.6"), ::testing::ExitedWithCode(0),
              "exports no InitializeInjection");
}

}  // namespace
}  // namespace vrank::gpu
