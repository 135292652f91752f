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
    EXPECT_EQ(gpu->virtual_memory().Reserve(bytes, 0, 0, &address), Error::kSuccess);
    return address;
  }
  uint64_t Create(uint64_t bytes) {
    uint64_t handle = 0;
    EXPECT_EQ(gpu->virtual_memory().Create(0, bytes, &handle), Error::kSuccess);
    return handle;
  }
  uint64_t ValueAt(uint64_t address) {
    uint64_t value = 0;
    gpu->libraries().Read(reinterpret_cast<void*>(address), sizeof value, &value);
    return value;
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
  ASSERT_EQ(gpu->virtual_memory().Map(base, 20 * kMiB, handle), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Release(handle), Error::kSuccess);
  EXPECT_EQ(before - FreeBytes(), 20 * kMiB);  // it is still mapped
  ASSERT_EQ(gpu->virtual_memory().Unmap(base, 20 * kMiB), Error::kSuccess);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(gpu->virtual_memory().FreeAddresses(base, 1000 * kGiB), Error::kSuccess);
}

TEST_F(MappingTest, BytesSpanMappingsAndStopWhereNothingIsMapped) {
  const uint64_t base = Reserve(8 * kMiB);
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, Create(2 * kMiB)),
            Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Map(base + 2 * kMiB, 2 * kMiB, Create(2 * kMiB)),
            Error::kSuccess);
  std::vector<unsigned char> bytes(2 * kMiB, 7), read(2 * kMiB);
  ASSERT_EQ(ToDevice(base + kMiB, bytes.data(), bytes.size()), Error::kSuccess);
  gpu->libraries().Read(reinterpret_cast<void*>(base + kMiB), read.size(), read.data());
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(ToDevice(base + 3 * kMiB, bytes.data(), bytes.size()),
            Error::kInvalidValue);
}

// cuMemCreate makes memory, cuMemMap shows it: "Maps bytes of memory represented by
// handle".
TEST_F(MappingTest, MemoryMappedAgainContainsWhatItDid) {
  const uint64_t base = Reserve(4 * kMiB);
  const uint64_t handle = Create(2 * kMiB);
  const uint64_t before = FreeBytes();
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, handle), Error::kSuccess);
  const uint64_t value = 5;
  ASSERT_EQ(ToDevice(base + 8, &value, sizeof value), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Unmap(base, 2 * kMiB), Error::kSuccess);
  EXPECT_EQ(ToDevice(base, &value, sizeof value), Error::kInvalidValue);
  ASSERT_EQ(gpu->virtual_memory().Map(base + 2 * kMiB, 2 * kMiB, handle),
            Error::kSuccess);
  EXPECT_EQ(ValueAt(base + 2 * kMiB + 8), 5u);
  EXPECT_EQ(FreeBytes(), before);
}

TEST_F(MappingTest, NewMemoryAtOldAddressesIsUnwritten) {
  const uint64_t base = Reserve(2 * kMiB);
  uint64_t handle = Create(2 * kMiB);
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, handle), Error::kSuccess);
  const uint64_t value = 5;
  ASSERT_EQ(ToDevice(base, &value, sizeof value), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Unmap(base, 2 * kMiB), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, Create(2 * kMiB)),
            Error::kSuccess);
  const auto pieces =
      gpu->libraries().Inspect(reinterpret_cast<void*>(base), sizeof value);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_NE(pieces[0].state, protocol::PayloadState::kKnown);
}

// CUDA C++ Programming Guide, "Virtual Aliasing Support": "multiple virtual memory
// mappings or 'proxies' to the same allocation".
TEST_F(MappingTest, OneMemoryAtSeveralAddressesContainsTheSame) {
  const uint64_t base = Reserve(6 * kMiB);
  const uint64_t handle = Create(2 * kMiB);
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, handle), Error::kSuccess);
  const uint64_t first = 5, second = 6, third = 7;
  ASSERT_EQ(ToDevice(base + kMiB, &first, sizeof first), Error::kSuccess);
  for (const uint64_t offset : {2 * kMiB, 4 * kMiB})
    ASSERT_EQ(gpu->virtual_memory().Map(base + offset, 2 * kMiB, handle),
              Error::kSuccess);
  EXPECT_EQ(ValueAt(base + 5 * kMiB), 5u);
  ASSERT_EQ(ToDevice(base + 5 * kMiB, &second, sizeof second), Error::kSuccess);
  EXPECT_EQ(ValueAt(base + kMiB), 6u);
  EXPECT_EQ(ValueAt(base + 3 * kMiB), 6u);
  // A memset, and a kernel's writes.
  ASSERT_EQ(gpu->Fill({.to = reinterpret_cast<void*>(base + 3 * kMiB),
                       .value = 9,
                       .elements = sizeof first}),
            Error::kSuccess);
  EXPECT_EQ(ValueAt(base + kMiB), 0x0909090909090909u);
  ASSERT_EQ(Launch(nullptr, nullptr, reinterpret_cast<void*>(base + 3 * kMiB)),
            Error::kSuccess);
  const auto pieces =
      gpu->libraries().Inspect(reinterpret_cast<void*>(base + kMiB), sizeof first);
  EXPECT_NE(pieces[0].state, protocol::PayloadState::kKnown);
  // A place that is gone no longer follows.
  ASSERT_EQ(gpu->virtual_memory().Unmap(base, 2 * kMiB), Error::kSuccess);
  ASSERT_EQ(ToDevice(base + 3 * kMiB, &third, sizeof third), Error::kSuccess);
  EXPECT_EQ(ValueAt(base + 5 * kMiB), 7u);
}

// cuMemRetainAllocationHandle: "The handle is guaranteed to be the same handle value
// used to map the memory. [...] The returned handle must be released with corresponding
// number of calls to cuMemRelease."
TEST_F(MappingTest, TheHandleOfMappedMemoryIsFound) {
  const uint64_t before = FreeBytes();
  const uint64_t base = Reserve(4 * kMiB);
  const uint64_t handle = Create(2 * kMiB);
  uint64_t found = 0;
  EXPECT_EQ(gpu->virtual_memory().Retain(base, &found), Error::kInvalidValue);
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, handle), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Release(handle), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Retain(base + kMiB, &found), Error::kSuccess);
  EXPECT_EQ(found, handle);
  EXPECT_EQ(gpu->virtual_memory().Retain(base + 2 * kMiB, &found),
            Error::kInvalidValue);
  ASSERT_EQ(gpu->virtual_memory().Unmap(base, 2 * kMiB), Error::kSuccess);
  EXPECT_EQ(before - FreeBytes(), 2 * kMiB);
  ASSERT_EQ(gpu->virtual_memory().Release(handle), Error::kSuccess);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(gpu->virtual_memory().Release(handle), Error::kInvalidValue);
}

// cuMemMap: "calling cuMemMap does not make the address accessible". cuMemSetAccess:
// "The range must be a fully mapped address range containing all allocations".
TEST_F(MappingTest, AccessIsToldAsItWasSet) {
  const uint64_t base = Reserve(4 * kMiB);
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, Create(2 * kMiB)),
            Error::kSuccess);
  MemoryAccess access{};
  ASSERT_EQ(gpu->virtual_memory().GetAccess(base, 0, &access), Error::kSuccess);
  EXPECT_EQ(access, MemoryAccess::kNone);
  EXPECT_EQ(
      gpu->virtual_memory().SetAccess(base, 4 * kMiB, 0, MemoryAccess::kReadWrite),
      Error::kInvalidValue);
  EXPECT_EQ(
      gpu->virtual_memory().SetAccess(base, 2 * kMiB, 2, MemoryAccess::kReadWrite),
      Error::kInvalidDevice);
  ASSERT_EQ(
      gpu->virtual_memory().SetAccess(base, 2 * kMiB, 0, MemoryAccess::kReadWrite),
      Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().GetAccess(base + kMiB, 0, &access), Error::kSuccess);
  EXPECT_EQ(access, MemoryAccess::kReadWrite);
  ASSERT_EQ(gpu->virtual_memory().GetAccess(base, 1, &access), Error::kSuccess);
  EXPECT_EQ(access, MemoryAccess::kNone);
  EXPECT_EQ(gpu->virtual_memory().GetAccess(base + 2 * kMiB, 0, &access),
            Error::kInvalidValue);
}

// Exported memory may be imported by the process that has it.
TEST_F(MappingTest, OwnMemoryIsImportedAsItself) {
  const uint64_t before = FreeBytes();
  const uint64_t base = Reserve(4 * kMiB);
  const uint64_t handle = Create(2 * kMiB);
  SharedHandle shared;
  uint64_t imported = 0;
  ASSERT_EQ(gpu->virtual_memory().Export(handle, &shared), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Import(shared, &imported), Error::kSuccess);
  EXPECT_EQ(before - FreeBytes(), 2 * kMiB);
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, handle), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Map(base + 2 * kMiB, 2 * kMiB, imported),
            Error::kSuccess);
  const uint64_t value = 5;
  ASSERT_EQ(ToDevice(base, &value, sizeof value), Error::kSuccess);
  EXPECT_EQ(ValueAt(base + 2 * kMiB), 5u);
}

TEST_F(MappingTest, RefusesWhatCudaRefuses) {
  uint64_t handle = 0, address = 0;
  EXPECT_EQ(gpu->virtual_memory().Create(0, kMiB, &handle), Error::kInvalidValue);
  EXPECT_EQ(gpu->virtual_memory().Create(0, uint64_t{1} << 50, &handle),
            Error::kOutOfMemory);
  EXPECT_EQ(gpu->virtual_memory().Reserve(kMiB, 0, 0, &address), Error::kInvalidValue);
  const uint64_t base = Reserve(4 * kMiB);
  handle = Create(2 * kMiB);
  EXPECT_EQ(gpu->virtual_memory().Map(base + 512, 2 * kMiB, handle),
            Error::kInvalidValue);
  EXPECT_EQ(gpu->virtual_memory().Map(base, 4 * kMiB, handle), Error::kInvalidValue);
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, handle), Error::kSuccess);
  EXPECT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, Create(2 * kMiB)),
            Error::kInvalidValue);
  EXPECT_EQ(gpu->virtual_memory().FreeAddresses(base, 4 * kMiB), Error::kInvalidValue);
  EXPECT_EQ(gpu->virtual_memory().Unmap(base, 4 * kMiB), Error::kInvalidValue);
}

TEST_F(MappingTest, ResetReturnsEverything) {
  const uint64_t before = FreeBytes();
  const uint64_t base = Reserve(4 * kMiB);
  ASSERT_EQ(gpu->virtual_memory().Map(base, 2 * kMiB, Create(2 * kMiB)),
            Error::kSuccess);
  Create(2 * kMiB);
  ASSERT_EQ(gpu->DestroyContext(0), Error::kSuccess);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(Reserve(4 * kMiB), base);
}

}  // namespace
}  // namespace vrank::gpu
