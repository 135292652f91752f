#include "virtual_nccl/core/group.h"

#include <map>
#include <thread>
#include <utility>

#include <gmock/gmock.h>

#include "tests/virtual_nccl/nccl_fixture.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/release.h"

namespace vrank::nccl {
namespace {

using ::testing::ElementsAre;

class GroupTest : public NcclTest {};

TEST_F(GroupTest, NeedsAStart) {
  EXPECT_EQ(group.End(library), ncclInvalidUsage);
}

TEST_F(GroupTest, LaunchesAtTheOutermostEndOnly) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  group.Start();
  group.Start();
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)), ncclSuccess);
  EXPECT_EQ(group.End(library), ncclSuccess);
  EXPECT_TRUE(channel.records().empty());
  EXPECT_EQ(group.End(library), ncclSuccess);
  EXPECT_THAT(Kinds(), ElementsAre(Kind::kPayload, Kind::kCollective));
  EXPECT_FALSE(group.IsOpen());
}

TEST_F(GroupTest, ReturnsItsFirstFailureAndLaunchesNothing) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  Request bad_stream = Collective(Operation::kAllReduce, communicator);
  bad_stream.stream = reinterpret_cast<cudaStream_t>(0x77);
  Request bad_type = Collective(Operation::kAllReduce, communicator);
  bad_type.type = ncclNumTypes;
  group.Start();
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)), ncclSuccess);
  EXPECT_EQ(Enqueue(bad_stream), ncclUnhandledCudaError);
  EXPECT_EQ(Enqueue(bad_type), ncclInvalidArgument);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)), ncclSuccess);
  EXPECT_EQ(group.End(library), ncclUnhandledCudaError);
  EXPECT_TRUE(channel.records().empty());
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)), ncclSuccess);
  EXPECT_EQ(Records<protocol::Collective>(Kind::kCollective).size(), 1u);
}

TEST_F(GroupTest, CountsABadCommunicatorAsAFailureOfTheGroup) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  group.Start();
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)), ncclSuccess);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, nullptr)), ncclInvalidArgument);
  EXPECT_EQ(group.End(library), ncclInvalidArgument);
  EXPECT_TRUE(channel.records().empty());
}

TEST_F(GroupTest, FusesTransfersAfterTheCollectives) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  group.Start();
  Enqueue(Transfer(Request::kSend, communicator, 0, 16));
  Enqueue(Collective(Operation::kAllReduce, communicator, 8));
  Enqueue(Transfer(Request::kReceive, communicator, 2, 4));
  Enqueue(Collective(Operation::kAllGather, communicator, 2));
  EXPECT_EQ(group.End(library), ncclSuccess);
  EXPECT_THAT(Kinds(),
              ElementsAre(Kind::kPayload, Kind::kCollective, Kind::kPayload,
                          Kind::kCollective, Kind::kPayload, Kind::kPointToPoint));
  auto collectives = Records<protocol::Collective>(Kind::kCollective);
  EXPECT_EQ(collectives[0].operation, Operation::kAllReduce);
  EXPECT_EQ(collectives[1].operation, Operation::kAllGather);
  auto fused = channel.records(Kind::kPointToPoint)[0];
  auto record = fused.as<protocol::PointToPoint>();
  ASSERT_EQ(record.count, 2u);
  EXPECT_NE(record.group, 0u);
  EXPECT_EQ(collectives[0].group, record.group);
  EXPECT_EQ(collectives[1].group, record.group);
  protocol::Transfer transfers[2];
  std::memcpy(transfers, fused.tail<protocol::PointToPoint>().data(), sizeof transfers);
  EXPECT_EQ(transfers[0].bytes, 64u);
  EXPECT_EQ(transfers[0].peer, 0u);
  EXPECT_EQ(transfers[0].is_send, 1u);
  EXPECT_EQ(transfers[1].bytes, 16u);
  EXPECT_EQ(transfers[1].peer, 2u);
  EXPECT_EQ(transfers[1].is_send, 0u);
}

TEST_F(GroupTest, NumbersOnlyGroupsThatAreFused) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  for (int calls : {1, 2, 2}) {
    group.Start();
    for (int i = 0; i < calls; ++i)
      Enqueue(Collective(Operation::kAllReduce, communicator));
    EXPECT_EQ(group.End(library), ncclSuccess);
  }
  std::vector<uint32_t> groups;
  for (const auto& record : Records<protocol::Collective>(Kind::kCollective))
    groups.push_back(record.group);
  EXPECT_THAT(groups, ElementsAre(0, 1, 1, 2, 2));
}

TEST_F(GroupTest, JoinsOtherStreamsToTheFirst) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  group.Start();
  for (uint32_t lane : {5, 6, 5, 7}) {
    Request request = Collective(Operation::kAllReduce, communicator);
    request.stream = Stream(lane);
    Enqueue(request);
  }
  EXPECT_EQ(group.End(library), ncclSuccess);
  for (const auto& record : Records<protocol::Collective>(Kind::kCollective))
    EXPECT_EQ(record.lane, 5u);
  std::vector<std::pair<uint32_t, uint32_t>> waits;  // waiting lane, awaited lane
  for (const auto& record : Records<protocol::TokenOnLane>(Kind::kWaitToken))
    waits.emplace_back(record.lane, record.token);
  using Wait = std::pair<uint32_t, uint32_t>;
  EXPECT_THAT(waits, ElementsAre(Wait(5, 6), Wait(5, 7), Wait(6, 5), Wait(7, 5)));
  auto kinds = Kinds();
  EXPECT_EQ(kinds[3], Kind::kWaitToken);
  EXPECT_EQ(kinds[4], Kind::kPayload);
  EXPECT_EQ(kinds[kinds.size() - 5], Kind::kCollective);
}

// By NCCL's order, which is one on all members, whatever a rank lists first.
TEST_F(GroupTest, LaunchesCommunicatorsApartInTheOrderOfTheirHash) {
  ncclComm_t first = MakeCommunicator(4, 1), second = MakeCommunicator(2, 0);
  if (Communicator::From(second)->hash < Communicator::From(first)->hash)
    std::swap(first, second);
  for (const bool other_way : {false, true}) {
    channel.Clear();
    Request once = Collective(Operation::kAllReduce, first);
    Request twice = Collective(Operation::kAllReduce, second);
    twice.stream = Stream(9);
    group.Start();
    if (other_way)
      Enqueue(once);
    Enqueue(twice);
    if (!other_way)
      Enqueue(once);
    Enqueue(twice);
    EXPECT_EQ(group.End(library), ncclSuccess);
    std::vector<uint32_t> order;
    std::vector<bool> fused;
    for (const auto& record : Records<protocol::Collective>(Kind::kCollective)) {
      order.push_back(record.communicator);
      fused.push_back(record.group != 0);
    }
    const uint32_t a = Communicator::From(first)->number;
    const uint32_t b = Communicator::From(second)->number;
    EXPECT_THAT(order, ElementsAre(a, b, b));
    EXPECT_THAT(fused, ElementsAre(false, true, true));
    EXPECT_TRUE(channel.records(Kind::kWaitToken).empty());
  }
}

TEST_F(GroupTest, RefusesATransferToItselfThatNobodyMeets) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  EXPECT_EQ(Enqueue(Transfer(Request::kSend, communicator, 1)), ncclInvalidUsage);
  EXPECT_NE(std::string(LastError()).find("without a matching ncclRecv"),
            std::string::npos);
  group.Start();
  Enqueue(Transfer(Request::kReceive, communicator, 1));
  EXPECT_EQ(group.End(library), ncclInvalidUsage);
  EXPECT_NE(std::string(LastError()).find("without a matching ncclSend"),
            std::string::npos);
  group.Start();
  Enqueue(Transfer(Request::kReceive, communicator, 1));
  Enqueue(Transfer(Request::kSend, communicator, 1));
  EXPECT_EQ(group.End(library), ncclSuccess);
  EXPECT_EQ(Records<protocol::PointToPoint>(Kind::kPointToPoint).at(0).count, 2u);
}

TEST_F(GroupTest, SkipsATransferToItselfInPlace) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  Request send = Transfer(Request::kSend, communicator, 1);
  Request receive = Transfer(Request::kReceive, communicator, 1);
  receive.receive = send_buffer;
  group.Start();
  Enqueue(send);
  Enqueue(receive);
  EXPECT_EQ(group.End(library), ncclSuccess);
  EXPECT_TRUE(channel.records().empty());
}

TEST_F(GroupTest, KeepsTransfersOfNothing) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  EXPECT_EQ(Enqueue(Transfer(Request::kSend, communicator, 2, 0)), ncclSuccess);
  EXPECT_EQ(Enqueue(Transfer(Request::kReceive, communicator, 2, 0)), ncclSuccess);
  EXPECT_THAT(Kinds(), ElementsAre(Kind::kPointToPoint, Kind::kPointToPoint));
  EXPECT_TRUE(gpu.results.empty());
}

TEST_F(GroupTest, FailsWhenItsCommunicatorIsDestroyedInside) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  group.Start();
  Enqueue(Collective(Operation::kAllReduce, communicator));
  EXPECT_EQ(Destroy(library, communicator), ncclSuccess);
  EXPECT_EQ(group.End(library), ncclInvalidUsage);
  EXPECT_TRUE(channel.records(Kind::kCollective).empty());
}

TEST_F(GroupTest, EstimatesInsteadOfLaunchingWhereThatIsAsked) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  ncclComm_t other = MakeCommunicator(4, 1);
  channel.on_ask = [](const FakeChannel::Written& question) {
    const auto estimate = question.as<protocol::Estimate>();
    Answer answer;
    answer.value = estimate.transfer != 0 ? 9000 : estimate.count;
    return answer;
  };
  float microseconds = -1;
  group.Start();
  group.Start();
  Enqueue(Collective(Operation::kAllReduce, communicator, 1500));
  Enqueue(Collective(Operation::kAllGather, communicator, 2500));
  Enqueue(Transfer(Request::kSend, communicator, 2));
  Enqueue(Transfer(Request::kReceive, communicator, 3));
  Enqueue(Collective(Operation::kAllReduce, other, 100));
  EXPECT_EQ(group.SimulateEnd(library, &microseconds), ncclSuccess);
  EXPECT_EQ(microseconds, -1);
  EXPECT_EQ(group.SimulateEnd(library, &microseconds), ncclSuccess);
  EXPECT_FLOAT_EQ(microseconds, 1.5f + 2.5f + 9);
  EXPECT_FALSE(group.IsOpen());
  EXPECT_TRUE(channel.records(Kind::kCollective).empty());
  EXPECT_TRUE(channel.records(Kind::kPointToPoint).empty());
  EXPECT_EQ(group.SimulateEnd(library, &microseconds), ncclInvalidUsage);
}

TEST_F(GroupTest, MeetsForTheWindowsOfAllLocalMembersAtOnce) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclComm_t members[2] = {};
  group.Start();
  for (int i = 0; i < 2; ++i) {
    gpu.current_device = i;
    ASSERT_EQ(InitRank(library, group,
                       {.out = &members[i], .ranks = 4, .rank = i, .ids = &id}),
              ncclSuccess);
  }
  ASSERT_EQ(group.End(library), ncclSuccess);
  channel.Clear();
  group.Start();
  for (int window = 0; window < 2; ++window)
    for (ncclComm_t member : members)
      EXPECT_EQ(group.AddWindow(Communicator::From(member)), ncclSuccess);
  EXPECT_TRUE(channel.records().empty());
  EXPECT_EQ(group.End(library), ncclSuccess);
  std::vector<uint32_t> order;
  for (const auto& meeting : Records<protocol::CommSplit>(Kind::kCommSplit)) {
    EXPECT_EQ(meeting.color, protocol::kNoColor);
    order.push_back(meeting.parent);
  }
  EXPECT_THAT(order, ElementsAre(1u, 2u, 1u, 2u));
}

TEST_F(GroupTest, LaunchesEachMemberOnItsOwnDevice) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclComm_t members[2] = {};
  group.Start();
  for (int i = 0; i < 2; ++i) {
    gpu.current_device = i;
    ASSERT_EQ(InitRank(library, group,
                       {.out = &members[i], .ranks = 2, .rank = i, .ids = &id}),
              ncclSuccess);
  }
  ASSERT_EQ(group.End(library), ncclSuccess);
  channel.Clear();
  group.Start();
  for (int i = 0; i < 2; ++i) {
    Request request = Collective(Operation::kAllReduce, members[i]);
    request.stream = Stream(static_cast<uint32_t>(3 + i), i);
    EXPECT_EQ(Enqueue(request), ncclSuccess);
    request.stream = Stream(3, 1 - i);
    EXPECT_EQ(nccl::Enqueue(library, group, request), ncclUnhandledCudaError);
    EXPECT_EQ(group.End(library), ncclUnhandledCudaError);
    group.Start();
  }
  for (int i = 0; i < 2; ++i) {
    Request request = Collective(Operation::kAllReduce, members[i]);
    request.stream = i == 0 ? nullptr : Stream(4, 1);
    EXPECT_EQ(Enqueue(request), ncclSuccess);
  }
  EXPECT_EQ(group.End(library), ncclSuccess);
  const auto launched = Records<protocol::Collective>(Kind::kCollective);
  ASSERT_EQ(launched.size(), 2u);
  EXPECT_EQ(launched[0].communicator, 1u);
  EXPECT_EQ(launched[1].communicator, 2u);
  EXPECT_EQ(launched[1].lane, 4u);
}

TEST_F(GroupTest, SpendsHostTimePerCall) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  TimePoint before = channel.Now();
  group.Start();
  Enqueue(Collective(Operation::kAllReduce, communicator));
  Enqueue(Transfer(Request::kSend, communicator, 2));
  Enqueue(Collective(Operation::kAllReduce, communicator, 0));
  EXPECT_EQ(group.End(library), ncclSuccess);
  EXPECT_EQ((channel.Now() - before).nanoseconds(), 2 * 5000);
}

TEST_F(GroupTest, KeepsThreadsApart) {
  constexpr int kCalls = 200;
  ncclComm_t shared = MakeCommunicator(4, 1);
  ncclComm_t own[2] = {MakeCommunicator(4, 1), MakeCommunicator(4, 1)};
  auto issue = [&](ncclComm_t communicator) {
    Group mine;
    for (int i = 0; i < kCalls; ++i) {
      mine.Start();
      nccl::Enqueue(library, mine, Collective(Operation::kAllReduce, communicator));
      nccl::Enqueue(library, mine, Collective(Operation::kAllGather, shared));
      EXPECT_EQ(mine.End(library), ncclSuccess);
      ncclResult_t health;
      EXPECT_EQ(CommunicatorHealth(library, shared, &health), ncclSuccess);
    }
  };
  std::thread other(issue, own[0]);
  issue(own[1]);
  other.join();
  std::map<uint32_t, uint32_t> next;  // by communicator
  for (const auto& payload : Records<protocol::Payload>(Kind::kPayload))
    EXPECT_EQ(payload.key.sequence, next[payload.key.communicator]++);
  EXPECT_THAT(next, ElementsAre(std::pair(1u, 2u * kCalls), std::pair(2u, 1u * kCalls),
                                std::pair(3u, 1u * kCalls)));
}

}  // namespace
}  // namespace vrank::nccl
