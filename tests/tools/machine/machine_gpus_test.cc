#include "tools/machine/machine_gpus.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/scratch_folder.h"

namespace vrank::tools {
namespace {

TEST(MachineGpusTest, NamesEachKindOnce) {
  const ScratchFolder folder;
  EXPECT_EQ(NameMachineGpus(folder.path() + "/none"), "");
  EXPECT_EQ(NameMachineGpus(folder.path()), "");
  const auto add = [&](const char* bus, const char* name) {
    const std::string gpu = folder.path() + "/" + bus;
    std::filesystem::create_directory(gpu);
    std::ofstream(gpu + "/information")
        << "Model: \t\t " << name << "\nIRQ:   \t\t 171\nGPU UUID: \t GPU-1\n";
  };
  add("0000:18:00.0", "NVIDIA H200");
  EXPECT_EQ(NameMachineGpus(folder.path()), "NVIDIA H200");
  add("0000:2a:00.0", "NVIDIA H200");
  add("0000:3a:00.0", "NVIDIA A100");
  EXPECT_EQ(NameMachineGpus(folder.path()), "NVIDIA A100, NVIDIA H200");
}

}  // namespace
}  // namespace vrank::tools
