// What a kernel may write through a table of addresses of which it uses the first ones.

#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

constexpr const char* kCleanup =
    "_ZN2at6native14lpnorm_cleanupIfLNS0_8NormTypeE1EfLb1EfEEvPKT3_NS0_"
    "19TensorListAddressesEPKli";

struct Table {
  void* addresses[4] = {};
};

TEST_F(GpuTest, AnOldAddressInATableIsNotWrittenThrough) {
  const int value = 7;
  int* tensors[3];
  Table table;
  for (size_t i = 0; i < 3; ++i) {
    tensors[i] = static_cast<int*>(NewMemory(1 << 20));
    ASSERT_EQ(CopyBytes(tensors[i], &value, sizeof value), Error::kSuccess);
    table.addresses[i] = tensors[i];
  }
  const void* partial = nullptr;
  void* arguments[] = {&partial, &table};
  KernelLaunch launch;
  launch.kernel = gpu->FindKernel(kCleanup);
  KernelSignature& signature = launch.kernel->signature;
  signature.complete = true;
  signature.count = signature.known = 2;
  signature.parameters = {
      {0, sizeof partial, ParameterKind::kConstPointer, false},
      {sizeof partial, sizeof table, ParameterKind::kStruct, false}};
  signature.bytes = sizeof partial + sizeof table;
  launch.arguments = arguments;
  launch.grid[0] = 2;  // tensors
  ASSERT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
  const int expected[] = {0, 0, value};
  for (size_t i = 0; i < 3; ++i) {
    int found = -1;
    ASSERT_EQ(CopyBytes(&found, tensors[i], sizeof found), Error::kSuccess);
    EXPECT_EQ(found, expected[i]) << i;
  }
}

}  // namespace
}  // namespace vrank::gpu
