// Memory and events of other processes: what is opened costs no memory, and what the
// other process does with it is said to be unknown.

#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr unsigned kShared = kEventInterprocess | kEventDisableTiming;

// `gpu` is rank 0, `other` is rank 1 of the same node.
class SharingTest : public GpuTest {
 protected:
  SharingTest() : GpuTest(2) {
    other_channel.mutable_settings().devices = 2;
    other_channel.mutable_settings().rank = 1;
    other = std::make_unique<ProcessGpu>(&other_channel);
    EXPECT_EQ(other->SetCurrentDevice(1), Error::kSuccess);
    EXPECT_EQ(other->EnsureContext(1), Error::kSuccess);
    EXPECT_EQ(other->SetCurrentDevice(-1), Error::kSuccess);
  }

  SharedHandle Export(void* address) {
    SharedHandle handle;
    EXPECT_EQ(gpu->ExportMemory(address, &handle), Error::kSuccess);
    return handle;
  }
  void* Open(ProcessGpu& where, const SharedHandle& handle) {
    void* address = nullptr;
    EXPECT_EQ(where.ImportMemory(handle, &address), Error::kSuccess);
    return address;
  }
  uint64_t FreeBytes(ProcessGpu& where) {
    DeviceMemoryInfo info;
    EXPECT_EQ(where.GetDeviceMemoryInfo(&info), Error::kSuccess);
    return info.free_bytes;
  }
  SharedHandle OfOther(SharedHandle::Kind kind, uint64_t bytes = 0) {
    SharedHandle handle;
    handle.kind = kind;
    handle.rank = 1;
    handle.node_device = 1;
    handle.id = 3;
    handle.bytes = bytes;
    return handle;
  }

  FakeChannel other_channel;
  std::unique_ptr<ProcessGpu> other;
};

TEST_F(SharingTest, OpenedMemoryLiesOnItsOwnersDeviceAndCostsNothing) {
  void* const memory = NewMemory(5 * kMiB);
  const uint64_t before = FreeBytes(*other);
  void* const opened = Open(*other, Export(memory));
  EXPECT_EQ(FreeBytes(*other), before);
  PointerInfo info;
  ASSERT_EQ(other->GetPointerInfo(opened, &info), Error::kSuccess);
  EXPECT_EQ(info.kind, MemoryKind::kDevice);
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.bytes, 5 * kMiB);
  EXPECT_EQ(other->Free(opened), Error::kInvalidValue);
  ASSERT_EQ(other->CloseImported(opened), Error::kSuccess);
  EXPECT_EQ(FreeBytes(*other), before);
  ASSERT_EQ(other->GetPointerInfo(opened, &info), Error::kSuccess);
  EXPECT_NE(info.kind, MemoryKind::kDevice);
}

TEST_F(SharingTest, AHandleIsOfTheWholeAllocation) {
  auto* const memory = static_cast<unsigned char*>(NewMemory(5 * kMiB));
  EXPECT_EQ(Export(memory), Export(memory + kMiB));
}

TEST_F(SharingTest, OpenedTwiceItIsClosedTwice) {
  const SharedHandle handle = OfOther(SharedHandle::Kind::kMemory, 3 * kMiB);
  void* const opened = Open(*gpu, handle);
  EXPECT_EQ(Open(*gpu, handle), opened);
  ASSERT_EQ(gpu->CloseImported(opened), Error::kSuccess);
  ASSERT_EQ(gpu->CloseImported(opened), Error::kSuccess);
  EXPECT_EQ(gpu->CloseImported(opened), Error::kInvalidValue);
}

TEST_F(SharingTest, ACopyFromItCrossesTheLinkAndItsBytesAreComputedElsewhere) {
  void* const opened = Open(*gpu, OfOther(SharedHandle::Kind::kMemory, 3 * kMiB));
  void* const mine = NewMemory(3 * kMiB);
  channel.Clear();
  ASSERT_EQ(CopyBytes(mine, opened, 3 * kMiB), Error::kSuccess);
  const auto copies = channel.records(RecordKind::kCopy);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].as<protocol::Copy>().copy_kind, protocol::CopyKind::kPeer);
  uint32_t value = 7;
  ASSERT_EQ(CopyBytes(&value, mine, sizeof value), Error::kSuccess);
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), sizeof value);
}

TEST_F(SharingTest, OnesOwnHandleIsRefusedWhereAllRanksAreReal) {
  const SharedHandle handle = Export(NewMemory(kMiB));
  void* address = nullptr;
  EXPECT_EQ(gpu->ImportMemory(handle, &address), Error::kInvalidContext);
  EXPECT_EQ(channel.Lost(LossId::kPlayedHandles), 0u);
}

TEST_F(SharingTest, OnesOwnHandleStandsForAPlayedRanks) {
  channel.mutable_settings().played_ranks = 6;
  void* const mine = NewMemory(2 * kMiB);
  void* const opened = Open(*gpu, Export(mine));
  EXPECT_NE(opened, mine);
  EXPECT_EQ(channel.Lost(LossId::kPlayedHandles), 1u);
  channel.Clear();
  ASSERT_EQ(CopyBytes(mine, opened, 2 * kMiB), Error::kSuccess);
  EXPECT_EQ(channel.records(RecordKind::kCopy)[0].as<protocol::Copy>().copy_kind,
            protocol::CopyKind::kPeer);
}

TEST_F(SharingTest, WhatIsNoHandleIsNotOpened) {
  void* address = nullptr;
  SharedHandle torn = OfOther(SharedHandle::Kind::kMemory, kMiB);
  torn.magic ^= 1;
  EXPECT_EQ(gpu->ImportMemory(torn, &address), Error::kInvalidValue);
  EXPECT_EQ(gpu->ImportMemory(OfOther(SharedHandle::Kind::kEvent), &address),
            Error::kInvalidValue);
  SharedHandle handle;
  EXPECT_EQ(gpu->ExportMemory(&handle, &handle), Error::kInvalidValue);
  // Neither a pool's memory nor what is another process's already.
  void* pooled = nullptr;
  ASSERT_EQ(gpu->AllocateAsync(kMiB, nullptr, nullptr, &pooled), Error::kSuccess);
  EXPECT_EQ(gpu->ExportMemory(pooled, &handle), Error::kInvalidValue);
  void* const opened = Open(*gpu, OfOther(SharedHandle::Kind::kMemory, kMiB));
  EXPECT_EQ(gpu->ExportMemory(opened, &handle), Error::kInvalidValue);
}

TEST_F(SharingTest, AnEventIsSharedWhereItWasMadeFor) {
  void* event = nullptr;
  EXPECT_EQ(gpu->CreateEvent(kEventInterprocess, &event), Error::kInvalidValue);
  ASSERT_EQ(gpu->CreateEvent(kShared, &event), Error::kSuccess);
  SharedHandle handle;
  ASSERT_EQ(gpu->ExportEvent(event, &handle), Error::kSuccess);
  EXPECT_EQ(gpu->ExportEvent(NewEvent(), &handle), Error::kInvalidValue);
}

TEST_F(SharingTest, AnothersEventCountsAsEndedUntilItIsRecordedHere) {
  void* event = nullptr;
  ASSERT_EQ(gpu->ImportEvent(OfOther(SharedHandle::Kind::kEvent), &event),
            Error::kSuccess);
  ASSERT_EQ(gpu->StreamWaitEvent(nullptr, event), Error::kSuccess);
  ASSERT_EQ(gpu->QueryEvent(event), Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeEvent(event), Error::kSuccess);
  EXPECT_EQ(channel.Lost(LossId::kForeignEvents), 3u);
  ASSERT_EQ(gpu->RecordEvent(event, nullptr), Error::kSuccess);
  ASSERT_EQ(gpu->StreamWaitEvent(NewStream(), event), Error::kSuccess);
  EXPECT_EQ(channel.Lost(LossId::kForeignEvents), 3u);
  EXPECT_EQ(gpu->DestroyEvent(event), Error::kSuccess);
}

TEST_F(SharingTest, ExportedPhysicalMemoryIsCountedByItsOwner) {
  uint64_t address = 0, imported = 0;
  const uint64_t before = FreeBytes(*gpu);
  ASSERT_EQ(gpu->virtual_memory().Import(
                OfOther(SharedHandle::Kind::kPhysical, 4 * kMiB), &imported),
            Error::kSuccess);
  int device = -1;
  uint64_t bytes = 0;
  ASSERT_EQ(gpu->virtual_memory().Find(imported, &device, &bytes), Error::kSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(bytes, 4 * kMiB);
  ASSERT_EQ(gpu->SetCurrentDevice(1), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Reserve(4 * kMiB, 0, 0, &address), Error::kSuccess);
  ASSERT_EQ(gpu->SetCurrentDevice(-1), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Map(address, 4 * kMiB, imported), Error::kSuccess);
  ASSERT_EQ(gpu->virtual_memory().Release(imported), Error::kSuccess);
  EXPECT_EQ(FreeBytes(*gpu), before);
  ASSERT_EQ(gpu->virtual_memory().Unmap(address, 4 * kMiB), Error::kSuccess);
  EXPECT_EQ(FreeBytes(*gpu), before);
}

TEST_F(SharingTest, AContextThatGoesTakesWhatItHasOpenedWithIt) {
  void* const opened = Open(*other, Export(NewMemory(kMiB)));
  ASSERT_EQ(other->DestroyContext(0), Error::kSuccess);  // never started
  ASSERT_EQ(other->EnsureContext(0), Error::kSuccess);
  ASSERT_EQ(other->DestroyContext(0), Error::kSuccess);
  EXPECT_EQ(other->CloseImported(opened), Error::kInvalidValue);
}

}  // namespace
}  // namespace vrank::gpu
