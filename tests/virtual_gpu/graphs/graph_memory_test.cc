// Allocation nodes: addresses from the start, memory from the launch on.

#include "tests/virtual_gpu/graphs/graphs_fixture.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class GraphMemoryTest : public GraphsTest {
 protected:
  uint64_t Attribute(GraphMemoryAttribute attribute) {
    uint64_t value = 0;
    EXPECT_EQ(graphs().GetMemoryAttribute(0, attribute, &value), Error::kSuccess);
    return value;
  }
  uint64_t FreeBytes() {
    DeviceMemoryInfo info;
    EXPECT_EQ(gpu->GetDeviceMemoryInfo(&info), Error::kSuccess);
    return info.free_bytes;
  }
  // cudaMallocAsync, a memset and, if wanted, cudaFreeAsync.
  void* Capture(void* stream, uint64_t bytes, bool frees, void** address) {
    Begin(stream);
    EXPECT_EQ(gpu->AllocateAsync(bytes, nullptr, stream, address), Error::kSuccess);
    EXPECT_EQ(gpu->Fill({.to = *address,
                         .elements = bytes,
                         .stream = stream,
                         .asynchronous = true}),
              Error::kSuccess);
    if (frees) {
      EXPECT_EQ(gpu->FreeAsync(*address, stream), Error::kSuccess);
    }
    return End(stream);
  }
};

TEST_F(GraphMemoryTest, LaunchTakesMemoryAndTrimGivesItBack) {
  void* stream = NewStream();
  void* address = nullptr;
  const uint64_t before = FreeBytes();
  void* exec = Instantiate(Capture(stream, 6 * kMiB, true, &address));
  EXPECT_EQ(FreeBytes(), before);
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_EQ(graphs().Launch(exec, stream), Error::kSuccess);
    EXPECT_EQ(FreeBytes(), before - 6 * kMiB);
  }
  EXPECT_EQ(Attribute(GraphMemoryAttribute::kUsedCurrent), 6 * kMiB);
  EXPECT_EQ(Attribute(GraphMemoryAttribute::kUsedHigh), 6 * kMiB);
  EXPECT_EQ(Attribute(GraphMemoryAttribute::kReservedCurrent), 6 * kMiB);
  ASSERT_EQ(graphs().TrimMemory(0), Error::kSuccess);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(Attribute(GraphMemoryAttribute::kUsedCurrent), 0u);
  EXPECT_EQ(Attribute(GraphMemoryAttribute::kReservedCurrent), 0u);
  EXPECT_EQ(Attribute(GraphMemoryAttribute::kReservedHigh), 6 * kMiB);
}

TEST_F(GraphMemoryTest, GraphsThatFreeWhatTheyTakeShareMemory) {
  void* stream = NewStream();
  void *a = nullptr, *b = nullptr;
  void* first = Instantiate(Capture(stream, 4 * kMiB, true, &a));
  void* second = Instantiate(Capture(stream, 2 * kMiB, true, &b));
  EXPECT_NE(a, b);
  ASSERT_EQ(graphs().Launch(first, stream), Error::kSuccess);
  ASSERT_EQ(graphs().Launch(second, stream), Error::kSuccess);
  EXPECT_EQ(Attribute(GraphMemoryAttribute::kReservedCurrent), 4 * kMiB);
}

TEST_F(GraphMemoryTest, WhatIsNotFreedForbidsTheNextLaunch) {
  void* stream = NewStream();
  void* address = nullptr;
  void* graph = Capture(stream, 2 * kMiB, false, &address);
  void* exec = Instantiate(graph);
  ASSERT_EQ(graphs().Launch(exec, stream), Error::kSuccess);
  EXPECT_EQ(graphs().Launch(exec, stream), Error::kInvalidValue);
  ASSERT_EQ(gpu->FreeAsync(address, stream), Error::kSuccess);
  EXPECT_EQ(graphs().Launch(exec, stream), Error::kSuccess);
  ASSERT_EQ(gpu->Free(address), Error::kSuccess);
  void* again = Instantiate(graph, kAutoFreeOnLaunch);
  EXPECT_EQ(graphs().Launch(again, stream), Error::kSuccess);
  EXPECT_EQ(graphs().Launch(again, stream), Error::kSuccess);
}

TEST_F(GraphMemoryTest, LaunchesFailWhereTheDeviceIsFull) {
  void* stream = NewStream();
  void* address = nullptr;
  void* exec = Instantiate(Capture(stream, 8 * kMiB, true, &address));
  NewMemory(FreeBytes() - 4 * kMiB);
  EXPECT_EQ(graphs().Launch(exec, stream), Error::kOutOfMemory);
}

}  // namespace
}  // namespace vrank::gpu
