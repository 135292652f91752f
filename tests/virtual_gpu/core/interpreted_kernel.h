// Machine code of the kernels in interpreted.cu, for a kernel of a test.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CORE_INTERPRETED_KERNEL_H_
#define VRANK_TESTS_VIRTUAL_GPU_CORE_INTERPRETED_KERNEL_H_

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "virtual_gpu/code/cubin.h"
#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {

inline void SetMachineCode(const char* name, KernelCode* kernel) {
  std::ifstream file(VRANK_IMAGES "/interpreted90.cubin", std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  const auto* elf = reinterpret_cast<const unsigned char*>(image.data());
  CubinKernels kernels;
  EXPECT_EQ(ReadCubin(elf, image.size(), 90, &kernels), nullptr);
  EXPECT_TRUE(Complete(kernels[name].places, &kernel->signature));
  auto code = std::make_unique<MachineCode>();
  EXPECT_EQ(ReadMachineCode(elf, image.size(), name, code.get()), nullptr);
  kernel->computation.code = std::move(code);
}

}  // namespace vrank::gpu

#endif  // VRANK_TESTS_VIRTUAL_GPU_CORE_INTERPRETED_KERNEL_H_
