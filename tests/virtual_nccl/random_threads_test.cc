// Many threads and communicators at once, by chance: what each call returns, and that
// no operation is lost or written twice. Meant for the sanitizers.

#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/virtual_nccl/nccl_fixture.h"
#include "virtual_nccl/core/release.h"

namespace vrank::nccl {
namespace {

constexpr int kThreads = 6;
constexpr int kShared = 4;  // communicators that all threads use

int Rounds() {
  return getenv("VRANK_TEST_FULL") != nullptr ? 50'000 : 1'000;
}

class RandomThreadsTest : public NcclTest {
 protected:
  // One thread's share. Counts what it has issued, by communicator.
  class Player {
   public:
    Player(RandomThreadsTest* test, unsigned seed)
        : test_(*test), library_(test->library), random_(seed) {}

    void Play(int rounds) {
      for (int i = 0; i < rounds; ++i)
        Step();
      while (group_.IsOpen())
        Close();
      while (!own_.empty())
        Remove();
    }
    std::map<uint32_t, uint32_t> issued;

   private:
    int Upto(int limit) { return std::uniform_int_distribution(0, limit)(random_); }

    void Step() {
      switch (Upto(9)) {
        case 0:
          return Make();
        case 1:
          return group_.IsOpen() ? Close() : Remove();
        case 2:
          return group_.Start();
        case 3:
          return group_.IsOpen() ? Close() : Look();
        case 4:
          return Look();
        case 5:
          return Reduce();
        default:
          return Issue(Any(), ncclSum);
      }
    }
    void Make() {
      if (group_.IsOpen() || own_.size() > 8)
        return;
      const ncclUniqueId id = library_.NewUniqueId(nullptr);
      ncclComm_t made = nullptr;
      const int ranks = 1 + Upto(7);
      EXPECT_EQ(InitRank(library_, group_,
                         {.function = "ncclCommInitRank",
                          .out = &made,
                          .ranks = ranks,
                          .rank = Upto(ranks - 1),
                          .ids = &id}),
                ncclSuccess);
      own_.push_back(made);
    }
    void Remove() {
      if (own_.empty())
        return;
      ncclComm_t gone = own_.back();
      own_.pop_back();
      EXPECT_EQ(Upto(1) == 0 ? Destroy(library_, gone) : Abort(library_, gone),
                ncclSuccess);
      ncclResult_t health = ncclSuccess;
      EXPECT_EQ(CommunicatorHealth(library_, gone, &health), ncclInvalidArgument);
    }
    // A watchdog's look at a communicator that others use.
    void Look() {
      ncclResult_t health = ncclInternalError;
      EXPECT_EQ(CommunicatorHealth(library_, Any(), &health), ncclSuccess);
      EXPECT_EQ(health, ncclSuccess);
    }
    // An operator of this thread's own on a communicator of all threads.
    void Reduce() {
      ncclComm_t communicator = Any();
      ncclRedOp_t twice = ncclSum;
      ASSERT_EQ(CreateReduction(Communicator::From(communicator), Times(ncclFloat32, 2),
                                &twice),
                ncclSuccess);
      Issue(communicator, twice);
      EXPECT_EQ(DestroyReduction(Communicator::From(communicator), twice), ncclSuccess);
    }
    void Issue(ncclComm_t communicator, ncclRedOp_t operation) {
      Request request = test_.Collective(Operation::kAllReduce, communicator,
                                         static_cast<size_t>(1 + Upto(64)));
      request.reduction = operation;
      request.stream = Stream(static_cast<uint32_t>(3 + Upto(2)));
      EXPECT_EQ(nccl::Enqueue(library_, group_, request), ncclSuccess);
      const Communicator& to = *Communicator::From(communicator);
      if (to.ranks > 1)
        ++issued[to.number];
    }
    void Close() { EXPECT_EQ(group_.End(library_), ncclSuccess); }
    ncclComm_t Any() {
      const int last = kShared + static_cast<int>(own_.size()) - 1;
      const auto which = static_cast<size_t>(Upto(last));
      return which < kShared ? test_.shared_[which] : own_[which - kShared];
    }

    RandomThreadsTest& test_;
    Library& library_;
    std::mt19937 random_;
    Group group_;
    std::vector<ncclComm_t> own_;
  };

  std::vector<ncclComm_t> shared_;
};

TEST_F(RandomThreadsTest, LosesNothing) {
  for (int i = 0; i < kShared; ++i)
    shared_.push_back(MakeCommunicator(i == 0 ? 1 : 8, 0));
  std::vector<std::unique_ptr<Player>> players;
  for (unsigned seed = 0; seed < kThreads; ++seed)
    players.push_back(std::make_unique<Player>(this, seed));
  std::vector<std::thread> threads;
  for (auto& player : players)
    threads.emplace_back([&player] { player->Play(Rounds()); });
  for (std::thread& thread : threads)
    thread.join();
  std::map<uint32_t, uint32_t> issued, written;
  for (const auto& player : players)
    for (const auto& [communicator, count] : player->issued)
      issued[communicator] += count;
  for (const auto& record : Records<protocol::Collective>(Kind::kCollective))
    ++written[record.communicator];
  EXPECT_EQ(written, issued);
  // Each operation has a number of its own, in the order in which they were written.
  std::map<uint32_t, uint32_t> next;
  for (const auto& payload : Records<protocol::Payload>(Kind::kPayload))
    ASSERT_EQ(payload.key.sequence, next[payload.key.communicator]++);
}

}  // namespace
}  // namespace vrank::nccl
