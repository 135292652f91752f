// Several ranks on one GPU: which of them has its memory is decided by virtual time.

#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/world/fake_job.h"

namespace vrank::emulator {
namespace {

constexpr uint64_t kCapacity = 80;

WorldOptions OneNode(int32_t ranks) {
  WorldOptions options;
  options.ranks_per_node = options.gpus_per_node = ranks;
  return options;
}

// What a process does with device memory, as virtual_gpu does it.
class Process {
 public:
  explicit Process(Guest* guest) : guest_(guest) {}

  uint64_t HeldByOthers(uint32_t device, uint64_t bytes, bool begins = false) {
    protocol::AskMemory question{};
    question.record.kind = protocol::RecordKind::kAskMemory;
    question.device = device;
    question.bytes = bytes;
    question.begins_sharing = begins ? 1 : 0;
    return guest_->channel().Ask(question).value;
  }
  bool Take(uint32_t device, uint64_t bytes) {
    const bool begins = held_.count(device) == 0 && device != guest_->rank();
    uint64_t others = 0;
    if (begins || guest_->channel().SharesGpu(device))
      others = HeldByOthers(device, bytes, begins);
    if (held_[device] + others + bytes > kCapacity)
      return false;
    Change(device, static_cast<int64_t>(bytes));
    return true;
  }
  void Change(uint32_t device, int64_t bytes) {
    held_[device] += static_cast<uint64_t>(bytes);
    protocol::Memory record{};
    record.record.kind = protocol::RecordKind::kMemory;
    record.device = device;
    record.delta_bytes = bytes;
    guest_->channel().Emit(record);
  }

 private:
  Guest* const guest_;
  std::map<uint32_t, uint64_t> held_;
};

// Nobody ends, and gives its memory back, before all are there.
void Meet(Guest* guest, uint32_t ranks) {
  guest->Init(ranks);
  guest->AllReduce();
  guest->Synchronize();
}

// In real time the ranks come in any order.
void Delay(uint32_t rank, uint32_t seed) {
  std::this_thread::sleep_for(std::chrono::milliseconds((rank * 7 + seed * 5) % 4 * 3));
}

TEST(WorldMemoryTest, TheThirdOfFourFindsNoMemoryInAnyOrder) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    bool has[4] = {};
    const auto program = [&](Guest& guest) {
      Process process(&guest);
      Delay(guest.rank(), seed);
      guest.channel().Spend(Duration::Nanoseconds(100));
      has[guest.rank()] = process.Take(0, 30);
      Meet(&guest, 4);
    };
    FakeJob job(4, {{0, program}, {1, program}, {2, program}, {3, program}},
                OneNode(4));
    ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
    EXPECT_THAT(has, testing::ElementsAre(true, true, false, false)) << seed;
    const auto peaks = job.world().MemoryOfGpus().SharedPeaks();
    ASSERT_EQ(peaks.size(), 1u);
    EXPECT_EQ(peaks[0].bytes, 60);
  }
}

// The rank that comes first by its clock has the memory, whatever its number.
TEST(WorldMemoryTest, VirtualTimeDecidesNotRealTime) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    bool has[3] = {};
    const auto program = [&](Guest& guest) {
      Process process(&guest);
      process.Take(2, 1);  // all share GPU 2, which rank 2 owns
      Delay(guest.rank(), seed);
      guest.channel().Spend(Duration::Nanoseconds(3000 - 1000 * guest.rank()));
      has[guest.rank()] = process.Take(2, 30);
      Meet(&guest, 3);
    };
    FakeJob job(3, {{0, program}, {1, program}, {2, program}}, OneNode(3));
    ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
    EXPECT_THAT(has, testing::ElementsAre(false, true, true)) << seed;
  }
}

// The owner asks nothing until another rank comes, and everything from then on.
TEST(WorldMemoryTest, OwnersAskOnlyOnceTheirGpuIsShared) {
  uint64_t of_owner = 99, of_guest = 99;
  bool alone = true, shared = false, has = true;
  FakeJob job(2,
              {{0,
                [&](Guest& guest) {
                  Process process(&guest);
                  process.Take(0, 50);
                  alone = !guest.channel().SharesGpu(0);
                  Meet(&guest, 2);
                  shared = guest.channel().SharesGpu(0);
                  of_owner = process.HeldByOthers(0, 0);
                  has = process.Take(0, 20);
                  guest.Synchronize();
                }},
               {1,
                [&](Guest& guest) {
                  Process process(&guest);
                  process.Take(1, 70);
                  of_guest = process.HeldByOthers(0, 20, true);
                  process.Change(0, 20);
                  Meet(&guest, 2);
                  guest.Work(1000);
                  guest.Synchronize();
                }}},
              OneNode(2));
  ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_TRUE(alone);
  EXPECT_TRUE(shared);
  EXPECT_EQ(of_guest, 50u);
  EXPECT_EQ(of_owner, 20u);
  EXPECT_FALSE(has);
}

TEST(WorldMemoryTest, MemoryThatIsGivenBackIsThereForOthersFromThenOn) {
  bool before = true, after = false;
  FakeJob job(2,
              {{0,
                [&](Guest& guest) {
                  Process process(&guest);
                  process.Take(0, 50);
                  guest.channel().Spend(Duration::Nanoseconds(1000));
                  process.Change(0, -50);
                  guest.Synchronize();
                }},
               {1,
                [&](Guest& guest) {
                  Process process(&guest);
                  process.Take(0, 1);
                  guest.channel().Spend(Duration::Nanoseconds(500));
                  before = process.Take(0, 40);
                  guest.channel().Spend(Duration::Nanoseconds(1000));
                  after = process.Take(0, 40);
                }}},
              OneNode(2));
  ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_FALSE(before);
  EXPECT_TRUE(after);
}

// A node's other GPUs, and other nodes, are no concern of it.
TEST(WorldMemoryTest, RanksOfOtherNodesHaveOtherGpus) {
  bool has[2] = {};
  const auto program = [&](Guest& guest) {
    Process process(&guest);
    has[guest.rank()] = process.Take(0, 70);
  };
  WorldOptions options = OneNode(1);
  FakeJob job(2, {{0, program}, {1, program}}, options);
  ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_THAT(has, testing::ElementsAre(true, true));
}

TEST(WorldMemoryTest, RanksThatFollowTakeTheirPartOfASharedGpu) {
  bool has = true;
  FakeJob job(4,
              {{3,
                [&](Guest& guest) {
                  Process process(&guest);
                  process.Take(3, 5);
                  has = process.Take(0, 30);
                }}},
              OneNode(4));
  ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_FALSE(has);  // ranks 0 to 2 have taken 30 each, and rank 0 5 of its own
}

}  // namespace
}  // namespace vrank::emulator
