// CUDA's rules for streams and events, as the records that carry them.

#include <set>
#include <utility>

#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A cudaStream_t is nullptr for the legacy stream.
constexpr void* kLegacy = nullptr;

class StreamsTest : public GpuTest {
 protected:
  // (recording lane, waiting lane) of every edge written since the last Clear.
  std::set<std::pair<uint32_t, uint32_t>> Edges() const {
    std::set<std::pair<uint32_t, uint32_t>> edges;
    for (const auto& [from, to] : EdgeList())
      edges.insert({from, to});
    return edges;
  }
  std::vector<std::pair<uint32_t, uint32_t>> EdgeList() const {
    std::map<uint32_t, uint32_t> recorded_on;
    std::vector<std::pair<uint32_t, uint32_t>> edges;
    for (const FakeChannel::Written& record : channel.records()) {
      const auto on_lane = record.kind == RecordKind::kRecordToken ||
                                   record.kind == RecordKind::kWaitToken
                               ? record.as<protocol::TokenOnLane>()
                               : protocol::TokenOnLane{};
      if (record.kind == RecordKind::kRecordToken)
        recorded_on[on_lane.token] = on_lane.lane;
      if (record.kind == RecordKind::kWaitToken)
        edges.emplace_back(recorded_on[on_lane.token], on_lane.lane);
    }
    return edges;
  }
  // Whatever is asked about has not ended yet.
  void NothingEnds() {
    channel.on_ask = [this](const FakeChannel::Written&) {
      Answer answer;
      answer.host = channel.Now();
      return answer;
    };
  }
};

TEST_F(StreamsTest, LegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  void* a = NewStream();
  void* b = NewStream();
  ASSERT_EQ(Launch(a), Error::kSuccess);
  ASSERT_EQ(Launch(b), Error::kSuccess);
  ASSERT_EQ(Launch(kLegacy), Error::kSuccess);
  ASSERT_EQ(Launch(a), Error::kSuccess);
  const uint32_t legacy = LaneOf(kLegacy);
  EXPECT_EQ(Edges(),
            (std::set<std::pair<uint32_t, uint32_t>>{
                {LaneOf(a), legacy}, {LaneOf(b), legacy}, {legacy, LaneOf(a)}}));
}

TEST_F(StreamsTest, NonBlockingStreamsTakeNoPart) {
  void* stream = NewStream(kStreamNonBlocking);
  ASSERT_EQ(Launch(stream), Error::kSuccess);
  ASSERT_EQ(Launch(kLegacy), Error::kSuccess);
  ASSERT_EQ(Launch(stream), Error::kSuccess);
  EXPECT_THAT(EdgeList(), IsEmpty());
}

TEST_F(StreamsTest, PerThreadStreamIsABlockingStream) {
  ASSERT_EQ(Launch(kPerThreadStream), Error::kSuccess);
  ASSERT_EQ(Launch(kLegacyStream), Error::kSuccess);
  EXPECT_EQ(EdgeList().size(), 1u);
}

TEST_F(StreamsTest, EdgesAreWrittenOnlyWhereTheyAddSomething) {
  void* a = NewStream();
  ASSERT_EQ(Launch(kLegacy), Error::kSuccess);
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(Launch(a), Error::kSuccess);
  EXPECT_EQ(EdgeList().size(), 1u);
  ASSERT_EQ(Launch(kLegacy), Error::kSuccess);
  ASSERT_EQ(Launch(kLegacy), Error::kSuccess);
  EXPECT_EQ(EdgeList().size(), 2u);
}

TEST_F(StreamsTest, EventWaitNamesTheEventsToken) {
  void* a = NewStream(kStreamNonBlocking);
  void* b = NewStream(kStreamNonBlocking);
  void* event = NewEvent();
  channel.Clear();
  ASSERT_EQ(gpu->StreamWaitEvent(b, event), Error::kSuccess);
  EXPECT_THAT(Kinds(), IsEmpty()) << "an event that was never recorded is no wait";
  ASSERT_EQ(Launch(a), Error::kSuccess);
  ASSERT_EQ(gpu->RecordEvent(event, a), Error::kSuccess);
  ASSERT_EQ(gpu->StreamWaitEvent(b, event), Error::kSuccess);
  EXPECT_THAT(EdgeList(), ElementsAre(std::pair(LaneOf(a), LaneOf(b))));
}

TEST_F(StreamsTest, SynchronizingTheDeviceAsksOnce) {
  void* a = NewStream();
  void* b = NewStream(kStreamNonBlocking);
  ASSERT_EQ(Launch(a), Error::kSuccess);
  ASSERT_EQ(Launch(b), Error::kSuccess);
  channel.Clear();
  int questions = 0;
  channel.on_ask = [&](const FakeChannel::Written&) {
    ++questions;
    return Answer{};
  };
  ASSERT_EQ(gpu->SynchronizeDevice(), Error::kSuccess);
  EXPECT_THAT(Kinds(),
              ElementsAre(RecordKind::kHostWaitLane, RecordKind::kHostWaitLane));
  EXPECT_EQ(questions, 1);
  channel.Clear();
  ASSERT_EQ(gpu->SynchronizeDevice(), Error::kSuccess);
  EXPECT_THAT(Kinds(), IsEmpty()) << "nothing was issued in between";
}

TEST_F(StreamsTest, DeviceWaitCoversDestroyedStreams) {
  void* a = NewStream();
  ASSERT_EQ(Launch(a), Error::kSuccess);
  ASSERT_EQ(gpu->DestroyStream(a), Error::kSuccess);
  EXPECT_EQ(gpu->DestroyStream(a), Error::kInvalidHandle);
  channel.Clear();
  ASSERT_EQ(gpu->SynchronizeDevice(), Error::kSuccess);
  EXPECT_EQ(channel.records(RecordKind::kHostWaitToken).size(), 1u);
}

TEST_F(StreamsTest, LaneNumbersAreReusedAfterRelease) {
  void* a = NewStream();
  const uint32_t lane = LaneOf(a);
  ASSERT_EQ(gpu->DestroyStream(a), Error::kSuccess);
  void* b = NewStream();
  EXPECT_NE(a, b) << "a handle names one stream only";
  EXPECT_EQ(LaneOf(b), lane);
}

TEST_F(StreamsTest, PublishedEndAnswersAQueryWithoutAQuestion) {
  void* event = NewEvent();
  ASSERT_EQ(Launch(kLegacy), Error::kSuccess);
  ASSERT_EQ(gpu->RecordEvent(event, kLegacy), Error::kSuccess);
  const auto token =
      channel.records(RecordKind::kRecordToken)[0].as<protocol::TokenOnLane>().token;
  channel.published[{token, 1}] =
      TimePoint::FromNanoseconds(channel.Now().nanoseconds() + 700);
  channel.on_ask = [](const FakeChannel::Written&) -> Answer {
    ADD_FAILURE() << "asked";
    return {};
  };
  // A query costs 500 ns: the first finds it running, the second complete.
  EXPECT_EQ(gpu->QueryEvent(event), Error::kNotReady);
  EXPECT_EQ(gpu->QueryEvent(event), Error::kSuccess);
  auto queries = channel.records(RecordKind::kHostQuery);
  ASSERT_EQ(queries.size(), 2u);
  EXPECT_EQ(queries[0].as<protocol::HostQuery>().known_complete, 0u);
  EXPECT_EQ(queries[1].as<protocol::HostQuery>().known_complete, 1u);
  EXPECT_EQ(queries[1].as<protocol::HostQuery>().slot, protocol::kNoSlot);
}

TEST_F(StreamsTest, EachQueryCostsWhatAQueryCosts) {
  void* stream = NewStream();
  void* event = NewEvent();
  ASSERT_EQ(Launch(stream), Error::kSuccess);
  ASSERT_EQ(gpu->RecordEvent(event, stream), Error::kSuccess);
  channel.Clear();
  NothingEnds();
  const int64_t before = channel.Now().nanoseconds();
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(gpu->QueryEvent(event), Error::kNotReady);
    ASSERT_EQ(gpu->QueryStream(stream), Error::kNotReady);
  }
  EXPECT_EQ(channel.Now().nanoseconds() - before, 1000 * 500);
  EXPECT_EQ(channel.records().size(), 1000u);
  EXPECT_EQ(channel.records(RecordKind::kHostQuery).size(), 1000u);
}

// "cudaDeviceSynchronize: Blocks until the device has completed all preceding requested
// tasks"; after that "cudaStreamQuery: Returns cudaSuccess if all operations in stream
// have completed".
TEST_F(StreamsTest, AfterADeviceWaitEveryStreamIsComplete) {
  void* blocking = NewStream();
  ASSERT_EQ(Launch(kLegacy), Error::kSuccess);
  ASSERT_EQ(Launch(blocking), Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeDevice(), Error::kSuccess);
  channel.Clear();
  NothingEnds();
  EXPECT_EQ(gpu->QueryStream(kLegacy), Error::kSuccess);
  EXPECT_EQ(gpu->QueryStream(blocking), Error::kSuccess);
  EXPECT_EQ(gpu->QueryStream(kPerThreadStream), Error::kSuccess);
  EXPECT_THAT(channel.records(), IsEmpty());
}

// A wait for a blocking stream, and a question about it, are no work in it: they follow
// no work of the legacy stream.
TEST_F(StreamsTest, WaitsAndQuestionsWriteNoEdges) {
  void* blocking = NewStream();
  const uint32_t lane = LaneOf(blocking);
  ASSERT_EQ(Launch(blocking), Error::kSuccess);
  ASSERT_EQ(Launch(kLegacy), Error::kSuccess);
  channel.Clear();
  EXPECT_EQ(gpu->QueryStream(blocking), Error::kSuccess);
  ASSERT_EQ(Launch(blocking), Error::kSuccess);
  ASSERT_EQ(Launch(kLegacy), Error::kSuccess);
  channel.Clear();
  EXPECT_EQ(gpu->SynchronizeStream(blocking), Error::kSuccess);
  const auto records = channel.records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].as<protocol::HostWait>().target, lane);
}

// "The legacy default stream [...] synchronizes with all other streams in the same
// CUcontext except for non-blocking streams."
TEST_F(StreamsTest, TheLegacyStreamCoversBlockingStreams) {
  void* blocking = NewStream();
  void* apart = NewStream(kStreamNonBlocking);
  ASSERT_EQ(Launch(blocking), Error::kSuccess);
  ASSERT_EQ(Launch(apart), Error::kSuccess);
  channel.Clear();
  NothingEnds();
  EXPECT_EQ(gpu->QueryStream(kLegacy), Error::kNotReady);
  auto queries = channel.records();
  ASSERT_EQ(queries.size(), 1u);
  EXPECT_EQ(queries[0].as<protocol::HostQuery>().target, LaneOf(blocking));
  channel.on_ask = nullptr;
  EXPECT_EQ(gpu->SynchronizeStream(kLegacy), Error::kSuccess);
  NothingEnds();
  EXPECT_EQ(gpu->QueryStream(kLegacy), Error::kSuccess);
  EXPECT_EQ(gpu->QueryStream(blocking), Error::kSuccess);
  EXPECT_EQ(gpu->QueryStream(apart), Error::kNotReady);
}

TEST_F(StreamsTest, ElapsedTimeIsTheDifferenceOfEnds) {
  void* first = NewEvent();
  void* second = NewEvent();
  int64_t elapsed = 0;
  EXPECT_EQ(gpu->ElapsedNanoseconds(first, second, &elapsed), Error::kInvalidHandle);
  ASSERT_EQ(gpu->RecordEvent(first, kLegacy), Error::kSuccess);
  ASSERT_EQ(gpu->RecordEvent(second, kLegacy), Error::kSuccess);
  auto recorded = channel.records(RecordKind::kRecordToken);
  auto token = [&](size_t i) { return recorded[i].as<protocol::TokenOnLane>().token; };
  const int64_t now = channel.Now().nanoseconds();
  channel.published[{token(0), 1}] = TimePoint::FromNanoseconds(now - 3000);
  channel.published[{token(1), 1}] = TimePoint::FromNanoseconds(now - 1000);
  EXPECT_EQ(gpu->ElapsedNanoseconds(first, second, &elapsed), Error::kSuccess);
  EXPECT_EQ(elapsed, 2000);
}

// CUDA C++ Programming Guide, "Stream and Event Behavior": "cudaEventElapsedTime() will
// fail if the two input events are associated to different devices."
class DevicesTest : public GpuTest {
 protected:
  DevicesTest() : GpuTest(2) {}
};

TEST_F(DevicesTest, EventsOfTwoDevicesHaveNoTimeBetweenThem) {
  void* events[2];
  for (int device = 0; device < 2; ++device) {
    ASSERT_EQ(gpu->SetCurrentDevice(device), Error::kSuccess);
    events[device] = NewEvent();
    ASSERT_EQ(gpu->RecordEvent(events[device], kLegacy), Error::kSuccess);
    ASSERT_EQ(gpu->SynchronizeDevice(), Error::kSuccess);
  }
  int64_t elapsed = 0;
  EXPECT_EQ(gpu->ElapsedNanoseconds(events[0], events[1], &elapsed),
            Error::kInvalidHandle);
  EXPECT_EQ(gpu->ElapsedNanoseconds(events[1], events[1], &elapsed), Error::kSuccess);
}

TEST_F(StreamsTest, HostFunctionsRunBeforeACoveringWaitReturns) {
  void* stream = NewStream();
  std::vector<int> ran;
  struct Call {
    std::vector<int>* ran;
    int number;
  };
  Call calls[3] = {{&ran, 0}, {&ran, 1}, {&ran, 2}};
  for (Call& call : calls)
    ASSERT_EQ(gpu->LaunchHostFunction(
                  stream,
                  [](void* argument) {
                    auto* call = static_cast<Call*>(argument);
                    call->ran->push_back(call->number);
                  },
                  &call),
              Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeStream(stream), Error::kSuccess);
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
}

// The engine hears how far the function's clock has gone on.
TEST_F(StreamsTest, AHostFunctionThatHasReturnedSaysHowLongItTook) {
  void* stream = NewStream();
  channel.on_collect = [](const FakeChannel::Written&) {
    Answer answer;
    answer.end = TimePoint::FromNanoseconds(1000);
    return answer;
  };
  channel.SetNow(TimePoint::FromNanoseconds(1000));
  for (int64_t i : {70, 0}) {
    static int64_t spends = 0;
    spends = i;
    ASSERT_EQ(gpu->LaunchHostFunction(
                  stream,
                  [](void* of) {
                    auto* spent_on = static_cast<FakeChannel*>(of);
                    spent_on->SetNow(TimePoint::FromNanoseconds(1000 + spends));
                  },
                  &channel),
              Error::kSuccess);
    ASSERT_EQ(gpu->SynchronizeStream(stream), Error::kSuccess);
  }
  const auto ends = channel.records(RecordKind::kHostFuncEnd);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].as<protocol::HostFuncEnd>().number, 1u);
  EXPECT_EQ(ends[0].as<protocol::HostFuncEnd>().took_ns, 70);
  EXPECT_EQ(ends[1].as<protocol::HostFuncEnd>().number, 2u);
  EXPECT_EQ(ends[1].as<protocol::HostFuncEnd>().took_ns, 0);
}

TEST_F(StreamsTest, WaitOnAnotherStreamsEventCoversItsHostFunctions) {
  void* a = NewStream(kStreamNonBlocking);
  void* b = NewStream(kStreamNonBlocking);
  void* event = NewEvent();
  std::atomic<bool> ran{false};
  ASSERT_EQ(
      gpu->LaunchHostFunction(
          a, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); },
          &ran),
      Error::kSuccess);
  ASSERT_EQ(gpu->RecordEvent(event, a), Error::kSuccess);
  ASSERT_EQ(gpu->StreamWaitEvent(b, event), Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeStream(b), Error::kSuccess);
  EXPECT_TRUE(ran);
}

TEST_F(StreamsTest, ContextCostsTimeAndMemory) {
  FakeChannel fresh;
  ProcessGpu other(&fresh);
  ASSERT_EQ(other.SetCurrentDevice(0), Error::kSuccess);
  EXPECT_FALSE(other.ContextIsActive(0));
  ASSERT_EQ(other.EnsureContext(0), Error::kSuccess);
  auto memory = fresh.records(RecordKind::kMemory);
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].as<protocol::Memory>().owner, protocol::MemoryOwner::kContext);
  EXPECT_GE(fresh.Now().nanoseconds(), 200'000'000);
}

TEST_F(StreamsTest, ProcessesWithoutAGpuAreToldWhy) {
  ProcessGpu outside(nullptr);
  EXPECT_EQ(outside.Ready(), Error::kNoDevice);
  EXPECT_EQ(outside.DeviceCount(), 0);
  void* address = nullptr;
  EXPECT_EQ(outside.Allocate(8, &address), Error::kNoDevice);
  channel.is_detached = true;
  EXPECT_EQ(gpu->Allocate(8, &address), Error::kNotInitialized);
  FakeChannel second;
  second.may_claim = false;
  ProcessGpu refused(&second);
  EXPECT_EQ(refused.EnsureContext(0), Error::kDevicesUnavailable);
}

}  // namespace
}  // namespace vrank::gpu
