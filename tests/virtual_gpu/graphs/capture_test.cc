// CUDA's rules for stream capture: what becomes a node, and what is forbidden.

#include <thread>

#include "tests/virtual_gpu/graphs/graphs_fixture.h"

namespace vrank::gpu {
namespace {

using ::testing::IsEmpty;

class CaptureTest : public GraphsTest {};

TEST_F(CaptureTest, WorkBecomesNodesAndNoRecord) {
  void* stream = NewStream();
  void* memory = NewMemory(1024);
  channel.Clear();
  Begin(stream);
  ASSERT_EQ(Launch(stream, nullptr, memory), Error::kSuccess);
  ASSERT_EQ(
      gpu->Fill(
          {.to = memory, .elements = 1024, .stream = stream, .asynchronous = true}),
      Error::kSuccess);
  void* graph = End(stream);
  EXPECT_THAT(Kinds(), IsEmpty());
  EXPECT_EQ(NodesOf(graph), 2u);
  std::vector<GraphEdge> edges;
  ASSERT_EQ(graphs().GetEdges(graph, &edges), Error::kSuccess);
  EXPECT_EQ(edges.size(), 1u);
}

TEST_F(CaptureTest, EventsForkAndJoin) {
  void* origin = NewStream();
  void* side = NewStream();
  void* fork = NewEvent();
  void* join = NewEvent();
  Begin(origin);
  ASSERT_EQ(LaunchGrid(origin, 1), Error::kSuccess);
  ASSERT_EQ(gpu->RecordEvent(fork, origin), Error::kSuccess);
  EXPECT_EQ(StatusOf(side), CaptureStatus::kNone);
  ASSERT_EQ(gpu->StreamWaitEvent(side, fork), Error::kSuccess);
  EXPECT_EQ(StatusOf(side), CaptureStatus::kActive);
  ASSERT_EQ(LaunchGrid(side, 2), Error::kSuccess);
  ASSERT_EQ(LaunchGrid(origin, 3), Error::kSuccess);
  ASSERT_EQ(gpu->RecordEvent(join, side), Error::kSuccess);
  ASSERT_EQ(gpu->StreamWaitEvent(origin, join), Error::kSuccess);
  ASSERT_EQ(LaunchGrid(origin, 4), Error::kSuccess);
  void* graph = End(origin);
  EXPECT_EQ(StatusOf(side), CaptureStatus::kNone);
  std::vector<GraphEdge> edges;
  ASSERT_EQ(graphs().GetEdges(graph, &edges), Error::kSuccess);
  EXPECT_EQ(NodesOf(graph), 4u);
  EXPECT_EQ(edges.size(), 4u);  // 1-2, 1-3, 2-4, 3-4
}

TEST_F(CaptureTest, ForkThatIsNotJoinedFails) {
  void* origin = NewStream();
  void* side = NewStream();
  void* fork = NewEvent();
  Begin(origin);
  ASSERT_EQ(gpu->RecordEvent(fork, origin), Error::kSuccess);
  ASSERT_EQ(gpu->StreamWaitEvent(side, fork), Error::kSuccess);
  ASSERT_EQ(LaunchGrid(side, 1), Error::kSuccess);
  End(origin, Error::kStreamCaptureUnjoined);
  EXPECT_EQ(StatusOf(side), CaptureStatus::kNone);
}

TEST_F(CaptureTest, CapturesDoNotMerge) {
  void* a = NewStream();
  void* b = NewStream();
  void* event = NewEvent();
  Begin(a);
  Begin(b);
  ASSERT_EQ(LaunchGrid(a, 1), Error::kSuccess);
  ASSERT_EQ(gpu->RecordEvent(event, a), Error::kSuccess);
  EXPECT_EQ(gpu->StreamWaitEvent(b, event), Error::kStreamCaptureMerge);
  End(a, Error::kStreamCaptureInvalidated);
  End(b, Error::kStreamCaptureInvalidated);
}

TEST_F(CaptureTest, EventsFromOutsideDoNotCrossTheBoundary) {
  void* stream = NewStream();
  void* outside = NewEvent();
  ASSERT_EQ(gpu->RecordEvent(outside, stream), Error::kSuccess);
  Begin(stream);
  EXPECT_EQ(gpu->StreamWaitEvent(stream, outside), Error::kStreamCaptureIsolation);
  EXPECT_EQ(StatusOf(stream), CaptureStatus::kInvalidated);
  EXPECT_EQ(LaunchGrid(stream, 1), Error::kStreamCaptureInvalidated);
  End(stream, Error::kStreamCaptureInvalidated);
}

TEST_F(CaptureTest, CapturedEventsCannotBeWaitedForOnTheHost) {
  void* stream = NewStream();
  void* event = NewEvent();
  Begin(stream);
  ASSERT_EQ(gpu->RecordEvent(event, stream), Error::kSuccess);
  EXPECT_EQ(gpu->QueryEvent(event), Error::kCapturedEvent);
  End(stream, Error::kStreamCaptureInvalidated);
  EXPECT_EQ(gpu->SynchronizeEvent(event), Error::kCapturedEvent);
  ASSERT_EQ(gpu->RecordEvent(event, stream), Error::kSuccess);
  EXPECT_EQ(gpu->SynchronizeEvent(event), Error::kSuccess);
}

TEST_F(CaptureTest, HostCannotWaitForCapturedStreams) {
  void* stream = NewStream();
  Begin(stream);
  EXPECT_EQ(gpu->SynchronizeStream(stream), Error::kStreamCaptureUnsupported);
  End(stream, Error::kStreamCaptureInvalidated);
  Begin(stream);
  EXPECT_EQ(gpu->QueryStream(stream), Error::kStreamCaptureUnsupported);
  End(stream, Error::kStreamCaptureInvalidated);
  Begin(stream);
  EXPECT_EQ(gpu->SynchronizeDevice(), Error::kStreamCaptureUnsupported);
  End(stream, Error::kStreamCaptureInvalidated);
}

TEST_F(CaptureTest, LegacyStreamIsForbiddenBesideBlockingStreams) {
  void* stream = NewStream();
  Begin(stream);
  EXPECT_EQ(LaunchGrid(nullptr, 1), Error::kStreamCaptureImplicit);
  End(stream, Error::kStreamCaptureInvalidated);
  void* free = NewStream(kStreamNonBlocking);
  Begin(free);
  EXPECT_EQ(LaunchGrid(nullptr, 1), Error::kSuccess);
  EXPECT_EQ(NodesOf(End(free)), 0u);
}

TEST_F(CaptureTest, AskingAboutTheLegacyStreamInvalidatesNothing) {
  void* stream = NewStream();
  Begin(stream);
  CaptureInfo info;
  EXPECT_EQ(graphs().GetCaptureInfo(nullptr, &info), Error::kStreamCaptureImplicit);
  End(stream);
}

TEST_F(CaptureTest, BeginsAndEndsWhereCudaAllowsIt) {
  EXPECT_EQ(graphs().BeginCapture(nullptr, CaptureMode::kGlobal, nullptr, {}),
            Error::kStreamCaptureUnsupported);
  void* stream = NewStream();
  void* side = NewStream();
  void* fork = NewEvent();
  void* graph = nullptr;
  EXPECT_EQ(graphs().EndCapture(stream, &graph), Error::kIllegalState);
  Begin(stream);
  EXPECT_EQ(graphs().BeginCapture(stream, CaptureMode::kGlobal, nullptr, {}),
            Error::kIllegalState);
  ASSERT_EQ(gpu->RecordEvent(fork, stream), Error::kSuccess);
  ASSERT_EQ(gpu->StreamWaitEvent(side, fork), Error::kSuccess);
  EXPECT_EQ(graphs().EndCapture(side, &graph), Error::kStreamCaptureUnmatched);
  EXPECT_EQ(graphs().EndCapture(stream, &graph), Error::kStreamCaptureInvalidated);
}

TEST_F(CaptureTest, OnlyRelaxedCapturesEndOnAnotherThread) {
  void* stream = NewStream();
  for (const CaptureMode mode : {CaptureMode::kThreadLocal, CaptureMode::kRelaxed}) {
    Begin(stream, mode);
    void* graph = nullptr;
    Error error{};
    std::thread([&] { error = graphs().EndCapture(stream, &graph); }).join();
    if (mode == CaptureMode::kRelaxed) {
      EXPECT_EQ(error, Error::kSuccess);
    } else {
      EXPECT_EQ(error, Error::kStreamCaptureWrongThread);
      EXPECT_EQ(graph, nullptr);
      EXPECT_EQ(graphs().EndCapture(stream, &graph), Error::kIllegalState);
    }
  }
}

// cudaThreadExchangeStreamCaptureMode: which captures forbid unsafe calls to whom.
TEST_F(CaptureTest, ModesSayWhoMayMakeUnsafeCalls) {
  void* memory = nullptr;
  const auto own = [&](CaptureMode capture, CaptureMode thread) {
    void* stream = NewStream(kStreamNonBlocking);
    Begin(stream, capture);
    const CaptureMode before = graphs().ExchangeCaptureMode(thread);
    const Error error = gpu->Allocate(1024, &memory);
    EXPECT_EQ(graphs().ExchangeCaptureMode(before), thread);
    End(stream, error == Error::kSuccess ? error : Error::kStreamCaptureInvalidated);
    return error == Error::kSuccess;
  };
  const auto other = [&](CaptureMode capture, CaptureMode thread) {
    void* stream = NewStream(kStreamNonBlocking);
    Begin(stream, capture);
    Error error{};
    std::thread([&] {
      [[maybe_unused]] const CaptureMode before = graphs().ExchangeCaptureMode(thread);
      error = gpu->Allocate(1024, &memory);
    }).join();
    End(stream, error == Error::kSuccess ? error : Error::kStreamCaptureInvalidated);
    return error == Error::kSuccess;
  };
  constexpr CaptureMode kGlobal = CaptureMode::kGlobal;
  constexpr CaptureMode kLocal = CaptureMode::kThreadLocal;
  constexpr CaptureMode kRelaxed = CaptureMode::kRelaxed;
  EXPECT_FALSE(own(kGlobal, kGlobal));
  EXPECT_FALSE(own(kGlobal, kLocal));
  EXPECT_TRUE(own(kGlobal, kRelaxed));
  EXPECT_FALSE(own(kLocal, kLocal));
  EXPECT_TRUE(own(kRelaxed, kGlobal));
  EXPECT_FALSE(other(kGlobal, kGlobal));
  EXPECT_TRUE(other(kGlobal, kLocal));
  EXPECT_TRUE(other(kGlobal, kRelaxed));
  EXPECT_TRUE(other(kLocal, kGlobal));
  EXPECT_TRUE(other(kRelaxed, kGlobal));
}

TEST_F(CaptureTest, ContinuesAGraphAndSetsWhatComesBefore) {
  void* graph = NewGraph();
  void* first = Add(graph, EmptyParameters{});
  void* stream = NewStream();
  const GraphDependency after{first, {}};
  ASSERT_EQ(graphs().BeginCapture(stream, CaptureMode::kGlobal, graph, {&after, 1}),
            Error::kSuccess);
  ASSERT_EQ(LaunchGrid(stream, 1), Error::kSuccess);
  CaptureInfo info;
  ASSERT_EQ(graphs().GetCaptureInfo(stream, &info), Error::kSuccess);
  EXPECT_EQ(info.graph, graph);
  ASSERT_EQ(info.count, 1u);
  void* const kernel = info.nodes[0];
  void* extra = Add(graph, EmptyParameters{}, {first});
  const GraphDependency also{extra, {}};
  ASSERT_EQ(graphs().UpdateCapture(stream, {&also, 1}, false), Error::kSuccess);
  ASSERT_EQ(LaunchGrid(stream, 2), Error::kSuccess);
  ASSERT_EQ(graphs().GetCaptureInfo(stream, &info), Error::kSuccess);
  std::vector<GraphDependency> before;
  ASSERT_EQ(graphs().GetNeighbours(info.nodes[0], false, &before), Error::kSuccess);
  ASSERT_EQ(before.size(), 2u);
  EXPECT_EQ(before[0].node, kernel);
  EXPECT_EQ(before[1].node, extra);
  EXPECT_EQ(End(stream), graph);
}

TEST_F(CaptureTest, BlockingCopiesAreForbidden) {
  void* memory = NewMemory(64);
  char host[64] = {};
  void* stream = NewStream(kStreamNonBlocking);
  Begin(stream);
  EXPECT_EQ(CopyBytes(memory, host, 64), Error::kStreamCaptureUnsupported);
  End(stream, Error::kStreamCaptureInvalidated);
}

TEST_F(CaptureTest, DestroyedStreamsTakeTheirCaptureAlong) {
  void* stream = NewStream();
  void* other = NewStream();
  Begin(stream);
  ASSERT_EQ(LaunchGrid(stream, 1), Error::kSuccess);
  ASSERT_EQ(gpu->DestroyStream(stream), Error::kSuccess);
  EXPECT_EQ(gpu->SynchronizeStream(other), Error::kSuccess);
}

}  // namespace
}  // namespace vrank::gpu
