#include "emulator/launch/loaded_software.h"

#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/launch/temporary_folder.h"

namespace vrank::emulator {
namespace {

using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(LoadedSoftwareTest, ReadsVersionsBesidePyTorch) {
  const TemporaryFolder folder;
  for (const char* name : {"torch", "torch/lib", "transformers-5.1.0.dist-info",
                           "nvidia_nccl_cu13-2.28.9.dist-info", "numpy-2.0.dist-info"})
    std::filesystem::create_directory(folder.File(name));
  folder.Write("torch/version.py",
               "from typing import Optional\n\n__version__ = '2.11.0+cu130'\n");
  EXPECT_THAT(
      SoftwareOfFiles({"/usr/bin/python3.11", "/usr/lib/libc.so.6",
                       folder.File("torch/lib/libtorch_cpu.so")}),
      UnorderedElementsAre(Pair("Python", "3.11"), Pair("PyTorch", "2.11.0+cu130"),
                           Pair("NCCL", "2.28.9"), Pair("transformers", "5.1.0")));
}

TEST(LoadedSoftwareTest, TakesNamesOfLibrariesOfPython) {
  EXPECT_THAT(SoftwareOfFiles({"/opt/lib/libpython3.14.so.1.0"}),
              UnorderedElementsAre(Pair("Python", "3.14")));
  EXPECT_THAT(SoftwareOfFiles({"/usr/bin/python", "/x/pythonic.so", "/usr/bin/python3",
                               "/x/torch/lib/libtorch_cpu.so"}),
              IsEmpty());
}

TEST(LoadedSoftwareTest, AProcessThatIsGoneHasNone) {
  EXPECT_THAT(LoadedSoftware(1 << 30), IsEmpty());
  EXPECT_THAT(LoadedSoftware(getpid()), IsEmpty());
}

}  // namespace
}  // namespace vrank::emulator
