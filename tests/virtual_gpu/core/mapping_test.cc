// Virtual memory management: memory counts from its creation, addresses cost nothing.

#include <cstring>

#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

class MappingTest : public GpuTest {
 protected:
  MappingTest() : GpuTest(2) {}

  uint64_t FreeBytes() {
    DeviceMemoryInfo info;
    EXPECT_EQ(gpu->GetDeviceMemoryInfo(&info), Error::kSuccess);
    return info.free_bytes;
  }
  uint64_t Reserve(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(gpu->ReserveAddresses(bytes, 0, 0, &address), Error::kSuccess);
    return address;
  }
  uint64_t Create(uint64_t bytes) {
    uint64_t handle = 0;
    EXPECT_EQ(gpu->CreatePhysical(0, bytes, &handle), Error::kSuccess);
    return handle;
  }
  Error ToDevice(uint64_t address, const void* from, uint64_t bytes) {
    return gpu->Copy({.to = reinterpret_cast<void*>(address),
                      .from = from,
                      .row_bytes = bytes,
                      .direction = CopyDirection::kHostToDevice});
  }
};

TEST_F(MappingTest, CountsMemoryAndNotAddresses) {
  const uint64_t before = FreeBytes();
  const uint64_t base = Reserve(1000 * kGiB);
  EXPECT_EQ(FreeBytes(), before);
  const uint64_t handle = Create(20 * kMiB);
  EXPECT_EQ(before - FreeBytes(), 20 * kMiB);
  ASSERT_EQ(gpu->Map(base, 20 * kMiB, handle), Error::kSuccess);
  ASSERT_EQ(gpu->ReleasePhysical(handle), Error::kSuccess);
  EXPECT_EQ(before - FreeBytes(), 20 * kMiB);  // it is still mapped
  ASSERT_EQ(gpu->Unmap(base, 20 * kMiB), Error::kSuccess);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(gpu->FreeAddresses(base, 1000 * kGiB), Error::kSuccess);
}

TEST_F(MappingTest, BytesSpanMappingsAndStopWhereNothingIsMapped) {
  const uint64_t base = Reserve(8 * kMiB);
  ASSERT_EQ(gpu->Map(base, 2 * kMiB, Create(2 * kMiB)), Error::kSuccess);
  ASSERT_EQ(gpu->Map(base + 2 * kMiB, 2 * kMiB, Create(2 * kMiB)), Error::kSuccess);
  std::vector<unsigned char> bytes(2 * kMiB, 7), read(2 * kMiB);
  ASSERT_EQ(ToDevice(base + kMiB, bytes.data(), bytes.size()), Error::kSuccess);
  gpu->Read(reinterpret_cast<void*>(base + kMiB), read.size(), read.data());
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(ToDevice(base + 3 * kMiB, bytes.data(), bytes.size()),
            Error::kInvalidValue);
  EXPECT_EQ(gpu->CheckMapped(base, 4 * kMiB), Error::kSuccess);
  EXPECT_EQ(gpu->CheckMapped(base, 6 * kMiB), Error::kInvalidValue);
}

TEST_F(MappingTest, MemoryMappedAgainIsUnwritten) {
  const uint64_t base = Reserve(2 * kMiB);
  const uint64_t handle = Create(2 * kMiB);
  ASSERT_EQ(gpu->Map(base, 2 * kMiB, handle), Error::kSuccess);
  const uint64_t value = 5;
  ASSERT_EQ(ToDevice(base, &value, sizeof value), Error::kSuccess);
  ASSERT_EQ(gpu->Unmap(base, 2 * kMiB), Error::kSuccess);
  EXPECT_EQ(ToDevice(base, &value, sizeof value), Error::kInvalidValue);
  ASSERT_EQ(gpu->Map(base, 2 * kMiB, handle), Error::kSuccess);
  const auto pieces = gpu->Inspect(reinterpret_cast<void*>(base), sizeof value);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_NE(pieces[0].state, protocol::PayloadState::kKnown);
}

TEST_F(MappingTest, RefusesWhatCudaRefuses) {
  uint64_t handle = 0, address = 0;
  EXPECT_EQ(gpu->CreatePhysical(0, kMiB, &handle), Error::kInvalidValue);
  EXPECT_EQ(gpu->CreatePhysical(0, uint64_t{1} << 50, &handle), Error::kOutOfMemory);
  EXPECT_EQ(gpu->ReserveAddresses(kMiB, 0, 0, &address), Error::kInvalidValue);
  const uint64_t base = Reserve(4 * kMiB);
  handle = Create(2 * kMiB);
  EXPECT_EQ(gpu->Map(base + 512, 2 * kMiB, handle), Error::kInvalidValue);
  EXPECT_EQ(gpu->Map(base, 4 * kMiB, handle), Error::kInvalidValue);
  ASSERT_EQ(gpu->Map(base, 2 * kMiB, handle), Error::kSuccess);
  EXPECT_EQ(gpu->Map(base + 2 * kMiB, 2 * kMiB, handle), Error::kNotSupported);
  EXPECT_EQ(gpu->Map(base, 2 * kMiB, Create(2 * kMiB)), Error::kInvalidValue);
  EXPECT_EQ(gpu->FreeAddresses(base, 4 * kMiB), Error::kInvalidValue);
  EXPECT_EQ(gpu->Unmap(base, 4 * kMiB), Error::kInvalidValue);
}

TEST_F(MappingTest, ResetReturnsEverything) {
  const uint64_t before = FreeBytes();
  const uint64_t base = Reserve(4 * kMiB);
  ASSERT_EQ(gpu->Map(base, 2 * kMiB, Create(2 * kMiB)), Error::kSuccess);
  Create(2 * kMiB);
  ASSERT_EQ(gpu->DestroyContext(0), Error::kSuccess);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(Reserve(4 * kMiB), base);
}

}  // namespace
}  // namespace vrank::gpu
