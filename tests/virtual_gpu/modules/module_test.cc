// Code that a program loads while it runs, through libcuda as programs see it. The
// images are those that nvcc makes for tests/virtual_gpu/code.

#include <cuda.h>
#include <dlfcn.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guest/export.h"
#include "tests/virtual_gpu/core/fake_channel.h"

namespace {

using vrank::FakeChannel;
using vrank::protocol::RecordKind;

FakeChannel& TheChannel() {
  static auto* const channel = new FakeChannel;
  return *channel;
}

// The driver's function of that name.
template <typename Function>
Function* Driver(const char* name) {
  static void* const library = dlopen(VRANK_LIBCUDA, RTLD_NOW);
  EXPECT_NE(library, nullptr) << dlerror();
  void* const function = library == nullptr ? nullptr : dlsym(library, name);
  EXPECT_NE(function, nullptr) << name;
  return reinterpret_cast<Function*>(function);
}
#define DRIVER(name) Driver<decltype(name)>(#name)

std::string ReadImage(const char* name) {
  std::ifstream file(std::string(VRANK_IMAGES "/") + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

class ModuleTest : public testing::Test {
 protected:
  ModuleTest() {
    EXPECT_EQ(DRIVER(cuInit)(0), CUDA_SUCCESS);
    CUcontext context = nullptr;
    EXPECT_EQ(DRIVER(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
    EXPECT_EQ(DRIVER(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    TheChannel().Clear();
  }
};

TEST_F(ModuleTest, LaunchesAKernelOfEveryForm) {
  for (const char* form : {"kernels.cubin", "zstd.fatbin", "several.fatbin"}) {
    CUmodule module = nullptr;
    {
      const std::string image = ReadImage(form);  // gone once the module is loaded
      ASSERT_EQ(DRIVER(cuModuleLoadData)(&module, image.data()), CUDA_SUCCESS) << form;
    }
    CUfunction function = nullptr;
    EXPECT_EQ(DRIVER(cuModuleGetFunction)(&function, module, "nobody"),
              CUDA_ERROR_NOT_FOUND);
    ASSERT_EQ(DRIVER(cuModuleGetFunction)(&function, module, "unmangled"),
              CUDA_SUCCESS);
    EXPECT_EQ(DRIVER(cuModuleUnload)(module), CUDA_SUCCESS);
    EXPECT_EQ(DRIVER(cuModuleUnload)(module), CUDA_ERROR_INVALID_HANDLE);

    // (Three, const char*, short): 32, 8 and 2 bytes.
    unsigned char three[32], text[8], value[2];
    std::memset(three, 3, sizeof three);
    std::memset(text, 8, sizeof text);
    std::memset(value, 2, sizeof value);
    void* arguments[] = {three, text, value};
    TheChannel().Clear();
    ASSERT_EQ(DRIVER(cuLaunchKernel)(function, 5, 1, 1, 64, 1, 1, 0, nullptr, arguments,
                                     nullptr),
              CUDA_SUCCESS);
    const auto kernels = TheChannel().records(RecordKind::kKernel);
    ASSERT_EQ(kernels.size(), 1u);
    const auto launch = kernels[0].as<vrank::protocol::Kernel>();
    EXPECT_EQ(launch.grid[0], 5u);
    EXPECT_EQ(launch.block[0], 64u);
    ASSERT_EQ(launch.argument_bytes, 42u);
    const auto tail = kernels[0].tail<vrank::protocol::Kernel>();
    EXPECT_EQ(tail[31], 3);
    EXPECT_EQ(tail[32], 8);
    EXPECT_EQ(tail[41], 2);
  }
}

TEST_F(ModuleTest, LoadsAFile) {
  CUmodule module = nullptr;
  EXPECT_EQ(DRIVER(cuModuleLoad)(&module, VRANK_IMAGES "/kernels.cubin"), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuModuleUnload)(module), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuModuleLoad)(&module, VRANK_IMAGES "/nothing"),
            CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(ModuleTest, RefusesPtxWhichADriverWouldCompile) {
  CUmodule module = nullptr;
  for (const char* form : {"kernels.ptx", "ptx.fatbin"})
    EXPECT_EQ(DRIVER(cuModuleLoadData)(&module, ReadImage(form).c_str()),
              CUDA_ERROR_NO_BINARY_FOR_GPU)
        << form;
}

// cuFuncSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: "The sum of this
// value and the function attribute CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES cannot exceed
// the device attribute CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN."
TEST_F(ModuleTest, KeepsAttributesOfFunctions) {
  const std::string image = ReadImage("kernels.cubin");
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(DRIVER(cuModuleLoadData)(&module, image.data()), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuModuleGetFunction)(&function, module, "unmangled"), CUDA_SUCCESS);
  int most = 0, value = 0;
  ASSERT_EQ(DRIVER(cuDeviceGetAttribute)(
                &most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0),
            CUDA_SUCCESS);
  constexpr auto kShared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(DRIVER(cuFuncSetAttribute)(function, kShared, most + 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(DRIVER(cuFuncSetAttribute)(function, kShared, most), CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuFuncGetAttribute)(&value, kShared, function), CUDA_SUCCESS);
  EXPECT_EQ(value, most);
}

// The driver's launches are checked as the runtime's are, and its occupancy agrees.
TEST_F(ModuleTest, RefusesWhatDoesNotFit) {
  const std::string image = ReadImage("limits90.cubin");
  CUmodule module = nullptr;
  ASSERT_EQ(DRIVER(cuModuleLoadData)(&module, image.data()), CUDA_SUCCESS);
  const auto function = [&](const char* name) {
    CUfunction found = nullptr;
    EXPECT_EQ(DRIVER(cuModuleGetFunction)(&found, module, name), CUDA_SUCCESS);
    return found;
  };
  void* nothing = nullptr;
  void* arguments[] = {&nothing};
  const auto launch = [&](CUfunction called, unsigned grid, unsigned block,
                          unsigned shared) {
    return DRIVER(cuLaunchKernel)(called, grid, 1, 1, block, 1, 1, shared, nullptr,
                                  arguments, nullptr);
  };
  EXPECT_EQ(launch(function("plain"), 1, 1025, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(function("bounded"), 1, 256, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch(function("bounded"), 1, 257, 0), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(launch(function("dynamic_shared"), 1, 32, 100 << 10),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(function("cluster"), 3, 32, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);

  int value = 0;
  const CUfunction plain = function("plain");
  EXPECT_EQ(DRIVER(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                       function("bounded")),
            CUDA_SUCCESS);
  EXPECT_EQ(value, 256);
  int grid = 0, block = 0, active = 0;
  ASSERT_EQ(
      DRIVER(cuOccupancyMaxPotentialBlockSize)(&grid, &block, plain, nullptr, 0, 0),
      CUDA_SUCCESS);
  ASSERT_EQ(
      DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&active, plain, block, 0),
      CUDA_SUCCESS);
  EXPECT_EQ(active * block, 2048);
  const auto most = static_cast<unsigned>(grid);
  const auto threads = static_cast<unsigned>(block);
  EXPECT_EQ(DRIVER(cuLaunchCooperativeKernel)(plain, most, 1, 1, threads, 1, 1, 0,
                                              nullptr, arguments),
            CUDA_SUCCESS);
  EXPECT_EQ(DRIVER(cuLaunchCooperativeKernel)(plain, most + 1, 1, 1, threads, 1, 1, 0,
                                              nullptr, arguments),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  const char* name = nullptr;
  EXPECT_EQ(DRIVER(cuGetErrorName)(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, &name),
            CUDA_SUCCESS);
  EXPECT_STREQ(name, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE");
}

TEST_F(ModuleTest, RefusesCodeForAnotherGpu) {
  const std::string image = ReadImage("limits80.cubin");
  CUmodule module = nullptr;
  EXPECT_EQ(DRIVER(cuModuleLoadData)(&module, image.data()),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
}

}  // namespace

// What libcuda looks for.
extern "C" VRANK_EXPORT vrank::Channel* vrank_guest_channel(uint32_t abi) {
  return abi == vrank::Channel::kAbi ? &TheChannel() : nullptr;
}
