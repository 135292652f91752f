// Device memory, pools, page-locked memory: addresses, accounts, attributes.

#include <cstring>

#include "base/guest/context_memory.h"
#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

class MemoryTest : public GpuTest {
 protected:
  MemoryTest() : GpuTest(2) {}

  int64_t Taken() const {
    int64_t sum = 0;
    for (const auto& record : channel.records(RecordKind::kMemory))
      sum += record.as<protocol::Memory>().delta_bytes;
    return sum;
  }
  uint64_t FreeBytes() {
    DeviceMemoryInfo info;
    EXPECT_EQ(gpu->GetDeviceMemoryInfo(&info), Error::kSuccess);
    return info.free_bytes;
  }
};

TEST_F(MemoryTest, AddressesAreTheSameInEveryRun) {
  EXPECT_EQ(reinterpret_cast<uint64_t>(NewMemory(1)), kDeviceBase);
  EXPECT_EQ(reinterpret_cast<uint64_t>(NewMemory(600)), kDeviceBase + 512);
  EXPECT_EQ(reinterpret_cast<uint64_t>(NewMemory(3 * kMiB)), kDeviceBase + 2 * kMiB);
  ASSERT_EQ(gpu->SetCurrentDevice(1), Error::kSuccess);
  EXPECT_EQ(reinterpret_cast<uint64_t>(NewMemory(1)), kDeviceBase + kDeviceSpan);
}

TEST_F(MemoryTest, FreedAddressesAreTakenAgainLowestFirst) {
  void* a = NewMemory(4 * kMiB);
  void* b = NewMemory(4 * kMiB);
  NewMemory(4 * kMiB);
  ASSERT_EQ(gpu->Free(b), Error::kSuccess);
  ASSERT_EQ(gpu->Free(a), Error::kSuccess);
  EXPECT_EQ(NewMemory(8 * kMiB), a);
}

TEST_F(MemoryTest, AccountsWholeBlocks) {
  const uint64_t before = FreeBytes();
  void* small = NewMemory(100);
  void* smaller = NewMemory(100);
  EXPECT_EQ(Taken(), static_cast<int64_t>(2 * kMiB));
  void* large = NewMemory(3 * kMiB);
  EXPECT_EQ(Taken(), static_cast<int64_t>(6 * kMiB));
  EXPECT_EQ(before - FreeBytes(), 6 * kMiB);
  for (void* address : {small, smaller, large})
    ASSERT_EQ(gpu->Free(address), Error::kSuccess);
  EXPECT_EQ(Taken(), 0);
  EXPECT_EQ(FreeBytes(), before);
}

TEST_F(MemoryTest, GivesBackEveryBlockOfAnAllocationInTwo) {
  std::vector<void*>
      parts;  // the third one lies at the end of one block and in the next
  for (int i = 0; i < 8; ++i)
    parts.push_back(NewMemory(700 << 10));
  EXPECT_EQ(Taken(), static_cast<int64_t>(6 * kMiB));
  std::swap(parts[2], parts.back());  // given back last
  for (auto part = parts.begin(); part != parts.end(); ++part)
    ASSERT_EQ(gpu->Free(*part), Error::kSuccess);
  EXPECT_EQ(Taken(), 0);
}

TEST_F(MemoryTest, OutOfMemoryIsReturnedAndPasses) {
  void* address = &address;
  EXPECT_EQ(gpu->Allocate(81 * kGiB, &address), Error::kOutOfMemory);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(gpu->Allocate(uint64_t{1} << 63, &address), Error::kOutOfMemory);
  EXPECT_NE(NewMemory(70 * kGiB), nullptr);
}

TEST_F(MemoryTest, FreeRefusesWhatItDidNotHandOut) {
  char* address = static_cast<char*>(NewMemory(4096));
  EXPECT_EQ(gpu->Free(address + 512), Error::kInvalidValue);
  int local = 0;
  EXPECT_EQ(gpu->Free(&local), Error::kInvalidValue);
  EXPECT_EQ(gpu->Free(nullptr), Error::kSuccess);
  EXPECT_EQ(gpu->Free(address), Error::kSuccess);
  EXPECT_EQ(gpu->Free(address), Error::kInvalidValue);
}

TEST_F(MemoryTest, PointersSayWhatTheyAre) {
  char* device = static_cast<char*>(NewMemory(4096));
  PointerInfo info;
  ASSERT_EQ(gpu->GetPointerInfo(device + 100, &info), Error::kSuccess);
  EXPECT_EQ(info.kind, MemoryKind::kDevice);
  EXPECT_EQ(info.device, 0);
  EXPECT_EQ(info.base, reinterpret_cast<uint64_t>(device));
  int local = 0;
  ASSERT_EQ(gpu->GetPointerInfo(&local, &info), Error::kSuccess);
  EXPECT_EQ(info.kind, MemoryKind::kUnknown);
  void* locked = nullptr;
  ASSERT_EQ(gpu->AllocateHost(100, 0, &locked), Error::kSuccess);
  std::memset(locked, 7, 100);
  ASSERT_EQ(gpu->GetPointerInfo(locked, &info), Error::kSuccess);
  EXPECT_EQ(info.kind, MemoryKind::kHost);
  EXPECT_EQ(gpu->FreeHost(locked), Error::kSuccess);
  EXPECT_EQ(gpu->FreeHost(locked), Error::kInvalidValue);
}

TEST_F(MemoryTest, RegisteredMemoryIsThePrograms) {
  char buffer[100];
  ASSERT_EQ(gpu->RegisterHost(buffer, sizeof buffer, 0), Error::kSuccess);
  EXPECT_EQ(gpu->RegisterHost(buffer + 10, 10, 0), Error::kHostMemoryAlreadyRegistered);
  EXPECT_EQ(gpu->FreeHost(buffer), Error::kInvalidValue);
  EXPECT_EQ(gpu->UnregisterHost(buffer), Error::kSuccess);
  EXPECT_EQ(gpu->UnregisterHost(buffer), Error::kHostMemoryNotRegistered);
}

TEST_F(MemoryTest, PoolReusesWithinAStreamAtOnce) {
  void* stream = NewStream();
  channel.Clear();
  void* a = nullptr;
  void* b = nullptr;
  ASSERT_EQ(gpu->AllocateAsync(1000, nullptr, stream, &a), Error::kSuccess);
  EXPECT_EQ(Taken(), 32 * static_cast<int64_t>(kMiB));
  ASSERT_EQ(Launch(stream), Error::kSuccess);
  ASSERT_EQ(gpu->FreeAsync(a, stream), Error::kSuccess);
  channel.Clear();
  ASSERT_EQ(gpu->AllocateAsync(1000, nullptr, stream, &b), Error::kSuccess);
  EXPECT_EQ(a, b);
  EXPECT_THAT(Kinds(), ::testing::IsEmpty());
}

TEST_F(MemoryTest, AnotherStreamFollowsTheOneThatFreed) {
  void* first = NewStream(kStreamNonBlocking);
  void* second = NewStream(kStreamNonBlocking);
  void* a = nullptr;
  void* b = nullptr;
  ASSERT_EQ(gpu->AllocateAsync(1000, nullptr, first, &a), Error::kSuccess);
  ASSERT_EQ(Launch(first), Error::kSuccess);
  ASSERT_EQ(gpu->FreeAsync(a, first), Error::kSuccess);
  channel.Clear();
  ASSERT_EQ(gpu->AllocateAsync(1000, nullptr, second, &b), Error::kSuccess);
  EXPECT_EQ(a, b);
  EXPECT_THAT(Kinds(),
              ::testing::ElementsAre(RecordKind::kRecordToken, RecordKind::kWaitToken));
}

TEST_F(MemoryTest, PoolGivesMemoryBackAtAWaitUnlessToldToKeepIt) {
  void* stream = NewStream();
  channel.Clear();
  void* pool = nullptr;
  ASSERT_EQ(gpu->DefaultPool(0, &pool), Error::kSuccess);
  for (uint64_t keep : {uint64_t{0}, ~uint64_t{0}}) {
    ASSERT_EQ(gpu->SetPoolAttribute(pool, PoolAttribute::kReleaseThreshold, keep),
              Error::kSuccess);
    void* address = nullptr;
    ASSERT_EQ(gpu->AllocateAsync(kMiB, nullptr, stream, &address), Error::kSuccess);
    ASSERT_EQ(gpu->FreeAsync(address, stream), Error::kSuccess);
    ASSERT_EQ(gpu->SynchronizeStream(stream), Error::kSuccess);
    EXPECT_EQ(Taken(), keep == 0 ? 0 : 32 * static_cast<int64_t>(kMiB));
  }
  uint64_t used = 1;
  ASSERT_EQ(gpu->GetPoolAttribute(pool, PoolAttribute::kUsedCurrent, &used),
            Error::kSuccess);
  EXPECT_EQ(used, 0u);
  ASSERT_EQ(gpu->TrimPool(pool, 0), Error::kSuccess);
  EXPECT_EQ(Taken(), 0);
  // The size of what a pool takes is assumed, and the report says so: once per growth.
  EXPECT_EQ(channel.Lost(LossId::kPoolChunks), 2 * 32 * kMiB);
}

// cudaMemPoolDestroy: "If any pointers obtained from this pool haven't been freed or
// the pool has free operations that haven't completed [...], the function will return
// immediately and the resources associated with the pool will be released automatically
// once there are no more outstanding allocations."
TEST_F(MemoryTest, ADestroyedPoolOutlivesItsHandle) {
  void* stream = NewStream();
  channel.Clear();
  void* pool = nullptr;
  void* address = nullptr;
  void* none = nullptr;
  ASSERT_EQ(gpu->CreatePool(0, 0, &pool), Error::kSuccess);
  ASSERT_EQ(gpu->SetCurrentPool(0, pool), Error::kSuccess);
  ASSERT_EQ(gpu->AllocateAsync(kMiB, nullptr, stream, &address), Error::kSuccess);
  ASSERT_EQ(gpu->DestroyPool(pool), Error::kSuccess);
  EXPECT_EQ(gpu->DestroyPool(pool), Error::kInvalidValue);
  EXPECT_EQ(gpu->AllocateAsync(kMiB, pool, stream, &none), Error::kInvalidValue);
  // "Destroying the current mempool of a device sets the default mempool of that device
  // as the current mempool for that device."
  void* current = nullptr;
  void* standard = nullptr;
  ASSERT_EQ(gpu->CurrentPool(0, &current), Error::kSuccess);
  ASSERT_EQ(gpu->DefaultPool(0, &standard), Error::kSuccess);
  EXPECT_EQ(current, standard);
  EXPECT_EQ(gpu->DestroyPool(standard), Error::kInvalidValue);
  EXPECT_EQ(Taken(), 32 * static_cast<int64_t>(kMiB));
  ASSERT_EQ(gpu->FreeAsync(address, stream), Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeStream(stream), Error::kSuccess);
  EXPECT_EQ(Taken(), 0);
}

// Seen on an H200: cudaDeviceGetDefaultMemPool makes no context.
TEST_F(MemoryTest, AskingForADevicesPoolsMakesNoContext) {
  const int other = 1;
  void *standard = nullptr, *current = nullptr;
  ASSERT_EQ(gpu->DefaultPool(other, &standard), Error::kSuccess);
  ASSERT_EQ(gpu->CurrentPool(other, &current), Error::kSuccess);
  EXPECT_EQ(standard, current);
  EXPECT_FALSE(gpu->ContextIsActive(other));
  void* none = nullptr;
  EXPECT_EQ(gpu->DefaultPool(gpu->DeviceCount(), &none), Error::kInvalidDevice);
  // The context takes them over.
  ASSERT_EQ(gpu->EnsureContext(other), Error::kSuccess);
  ASSERT_EQ(gpu->DefaultPool(other, &current), Error::kSuccess);
  EXPECT_EQ(current, standard);
}

TEST_F(MemoryTest, PoolsTellWhichDevicesMayUseThem) {
  void* pool = nullptr;
  MemoryAccess access{};
  ASSERT_EQ(gpu->CreatePool(0, 0, &pool), Error::kSuccess);
  ASSERT_EQ(gpu->GetPoolAccess(pool, 0, &access), Error::kSuccess);
  EXPECT_EQ(access, MemoryAccess::kReadWrite);
  EXPECT_EQ(gpu->SetPoolAccess(pool, 0, MemoryAccess::kNone), Error::kInvalidValue);
  EXPECT_EQ(gpu->SetPoolAccess(pool, 0, static_cast<MemoryAccess>(2)),
            Error::kInvalidValue);
  EXPECT_EQ(gpu->SetPoolAccess(pool, gpu->DeviceCount(), MemoryAccess::kReadWrite),
            Error::kInvalidDevice);
  const int other = 1;
  ASSERT_EQ(gpu->GetPoolAccess(pool, other, &access), Error::kSuccess);
  EXPECT_EQ(access, MemoryAccess::kNone);
  ASSERT_EQ(gpu->SetPoolAccess(pool, other, MemoryAccess::kReadWrite), Error::kSuccess);
  ASSERT_EQ(gpu->GetPoolAccess(pool, other, &access), Error::kSuccess);
  EXPECT_EQ(access, MemoryAccess::kReadWrite);
}

TEST_F(MemoryTest, NeighboursReservationsAreListedApart) {
  const uint64_t address =
      gpu->libraries().Reserve(0, 10 * kMiB, protocol::MemoryOwner::kCommunicator);
  ASSERT_NE(address, 0u);
  auto memory = channel.records(RecordKind::kMemory);
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].as<protocol::Memory>().owner,
            protocol::MemoryOwner::kCommunicator);
  gpu->libraries().GiveBack(0, address);
  EXPECT_EQ(Taken(), 0);
  EXPECT_EQ(
      gpu->libraries().Reserve(0, 90 * kGiB, protocol::MemoryOwner::kCommunicator), 0u);
}

// One process of a node of two: device 0 is its own.
class SharedMemoryTest : public MemoryTest {
 protected:
  SharedMemoryTest() {
    channel.mutable_settings().local_world_size = 2;
    channel.on_ask = [this](const FakeChannel::Written& question) {
      Answer answer;
      answer.host = channel.Now();
      if (question.kind != RecordKind::kAskMemory)
        return answer;
      asked.push_back(question.as<protocol::AskMemory>());
      answer.value = held_by_others;
      return answer;
    };
  }
  std::vector<protocol::AskMemory> asked;
  uint64_t held_by_others = 60 * kGiB;
};

TEST_F(SharedMemoryTest, ItsOwnDeviceAsksNothingUntilItIsShared) {
  NewMemory(30 * kGiB);
  FreeBytes();
  EXPECT_TRUE(asked.empty());
  channel.shared_gpus = 1;
  void* address = nullptr;
  EXPECT_EQ(gpu->Allocate(30 * kGiB, &address), Error::kOutOfMemory);
  EXPECT_EQ(FreeBytes(), 0u);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].device, 0u);
  EXPECT_EQ(asked[0].bytes, 30 * kGiB);
  EXPECT_EQ(asked[0].begins_sharing, 0u);
  EXPECT_EQ(asked[1].bytes, 0u);
  EXPECT_EQ(channel.Lost(LossId::kNoMemoryLeft), 1u);
  held_by_others = 0;
  EXPECT_EQ(gpu->Allocate(30 * kGiB, &address), Error::kSuccess);
}

TEST_F(SharedMemoryTest, EveryKindOfMemoryLeavesOthersTheirs) {
  channel.shared_gpus = 1;
  held_by_others = channel.settings().gpu.memory_bytes;
  void* address = nullptr;
  uint64_t handle = 0;
  EXPECT_EQ(gpu->AllocateAsync(kMiB, nullptr, NewStream(), &address),
            Error::kOutOfMemory);
  EXPECT_EQ(gpu->virtual_memory().Create(0, 2 * kMiB, &handle), Error::kOutOfMemory);
  EXPECT_EQ(gpu->libraries().Reserve(0, kMiB, protocol::MemoryOwner::kCommunicator),
            0u);
  EXPECT_EQ(asked.size(), 3u);
}

TEST_F(SharedMemoryTest, AContextOnAnothersDeviceIsAskedFor) {
  EXPECT_EQ(gpu->EnsureContext(1), Error::kSuccess);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].device, 1u);
  EXPECT_EQ(asked[0].bytes, channel.settings().gpu.context_bytes);
  EXPECT_EQ(asked[0].begins_sharing, 1u);
  ASSERT_EQ(gpu->SetCurrentDevice(1), Error::kSuccess);
  channel.shared_gpus = 2;
  EXPECT_EQ(FreeBytes(), 80 * kGiB - 60 * kGiB - asked[0].bytes);
}

TEST_F(SharedMemoryTest, AContextThatFindsNoMemoryIsNone) {
  held_by_others = channel.settings().gpu.memory_bytes;
  EXPECT_EQ(gpu->EnsureContext(1), Error::kOutOfMemory);
  EXPECT_FALSE(gpu->ContextIsActive(1));
  held_by_others = 0;
  EXPECT_EQ(gpu->EnsureContext(1), Error::kSuccess);
}

TEST_F(MemoryTest, TheOnlyProcessOfANodeAsksNothing) {
  EXPECT_EQ(gpu->EnsureContext(1), Error::kSuccess);
  EXPECT_TRUE(channel.records(RecordKind::kAskMemory).empty());
}

TEST_F(MemoryTest, AStreamTakesMemoryAsLongAsItLives) {
  const uint64_t before = FreeBytes();
  void* stream = NewStream();
  EXPECT_EQ(before - FreeBytes(), kStreamBytes);
  EXPECT_EQ(Taken(), static_cast<int64_t>(kStreamBytes));
  ASSERT_EQ(gpu->DestroyStream(stream), Error::kSuccess);
  EXPECT_EQ(FreeBytes(), before);
  EXPECT_EQ(Taken(), 0);
}

TEST_F(MemoryTest, DestroyingTheContextGivesEverythingBack) {
  NewMemory(10 * kMiB);
  void* stream = NewStream();
  void* address = nullptr;
  ASSERT_EQ(gpu->AllocateAsync(kMiB, nullptr, stream, &address), Error::kSuccess);
  ASSERT_EQ(gpu->DestroyContext(0), Error::kSuccess);
  EXPECT_EQ(Taken(), -static_cast<int64_t>(channel.settings().gpu.context_bytes));
  EXPECT_EQ(gpu->DestroyStream(stream), Error::kInvalidHandle);
  EXPECT_FALSE(gpu->ContextIsActive(0));
}

}  // namespace
}  // namespace vrank::gpu
