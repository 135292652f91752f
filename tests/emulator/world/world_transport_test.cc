// A world whose payloads travel over a socket: nothing of what it says changes.

#include <memory>

#include <gtest/gtest.h>

#include "tests/emulator/payload/socket_transport.h"
#include "tests/emulator/world/fake_job.h"

namespace vrank::emulator {
namespace {

TEST(WorldTransportTest, SumsOfEightRanksTravelOverASocket) {
  constexpr int kRanks = 8, kCalls = 20;
  std::set<int32_t> ranks;
  for (int32_t rank = 0; rank < kRanks; ++rank)
    ranks.insert(rank);
  PayloadServer server({}, ranks);
  int32_t sums[kRanks][kCalls] = {};
  int64_t ends[2][kRanks] = {};
  for (const bool over_socket : {false, true}) {
    std::map<int32_t, FakeJob::Program> programs;
    for (const int32_t rank : ranks)
      programs[rank] = [&, over_socket](Guest& guest) {
        guest.Init(kRanks);
        for (int i = 0; i < kCalls; ++i) {
          guest.AllReduce(static_cast<int32_t>(guest.rank()) + i);
          guest.Synchronize();
          sums[guest.rank()][i] = guest.Result();
        }
        ends[over_socket ? 1 : 0][guest.rank()] = guest.Synchronize();
      };
    WorldOptions options;
    if (over_socket)
      options.payloads = std::make_shared<SocketTransport>(server.port());
    FakeJob job(kRanks, programs, options);
    EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
    for (int rank = 0; rank < kRanks; ++rank)
      for (int i = 0; i < kCalls; ++i)
        EXPECT_EQ(sums[rank][i], 28 + kRanks * i) << rank << " " << i;
    std::fill(&sums[0][0], &sums[0][0] + kRanks * kCalls, 0);
  }
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(ends[0][rank], ends[1][rank]);
}

// That an answer is on its way does not hide that nobody will contribute.
TEST(WorldTransportTest, ABytelessWaitIsStillSeenAsStuck) {
  PayloadServer server({}, {0, 1});
  WorldOptions options;
  options.payloads = std::make_shared<SocketTransport>(server.port());
  FakeJob job(2,
              {{0,
                [](Guest& guest) {
                  guest.Init(2);
                  guest.AllReduce(1);
                  guest.Result();
                }},
               {1,
                [](Guest& guest) {
                  guest.Init(2);
                  guest.Transfer(0, false);
                  guest.Synchronize();
                }}},
              options);
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kStuck) << job.status().ToString();
}

}  // namespace
}  // namespace vrank::emulator
