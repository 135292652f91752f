// A random program that runs eagerly and captured gives the same memory and times.

#include <cstring>
#include <memory>
#include <random>

#include "emulator/decode/record_decoder.h"
#include "graph/replay/engine.h"
#include "graph/replay/silent_observer.h"
#include "tests/virtual_gpu/graphs/graphs_fixture.h"

namespace vrank::gpu {
namespace {

// A kernel takes as many nanoseconds as it has blocks, a copy or memset as many as
// bytes.
class SizePricer final : public emulator::WorkPricer {
 public:
  absl::StatusOr<uint32_t> DefineKernel(const std::string&) override { return 0u; }
  absl::StatusOr<graph::WorkCost> Kernel(uint32_t, const protocol::Kernel& launch,
                                         std::span<const std::byte>) override {
    return graph::WorkCost{launch.grid[0]};
  }
  graph::WorkCost Gemm(const protocol::Gemm& gemm) override {
    return graph::WorkCost{static_cast<int64_t>(gemm.m)};
  }
  graph::WorkCost Copy(const protocol::Copy& copy) override {
    return graph::WorkCost{static_cast<int64_t>(copy.bytes)};
  }
  graph::WorkCost Memset(const protocol::Memset& memset) override {
    return graph::WorkCost{static_cast<int64_t>(memset.bytes)};
  }
};

class NoSink final : public emulator::DecoderSink {
 public:
  void OnQuestion(int32_t, uint64_t, const emulator::Question&) override {}
  absl::Status OnPayload(int32_t, const protocol::Payload&,
                         std::span<const std::byte>) override {
    return absl::OkStatus();
  }
  absl::Status OnCollective(int32_t, uint32_t, const graph::CollectiveCall&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<graph::RootedTransfers> OnTransfers(
      int32_t, uint32_t, std::span<const protocol::Transfer>) override {
    return graph::RootedTransfers();
  }
  void OnRelease(int32_t, uint32_t) override {}
  void OnLoss(int32_t, uint64_t, uint32_t, const std::string&, uint64_t) override {}
};

// When each piece of work with a duration began and ended, in program order.
class WorkTimes final : public graph::TimelineObserver {
 public:
  void OnOpPassed(int32_t, uint64_t, const graph::Stamp&,
                  const graph::Stamp&) override {}
  void OnOpEnded(int32_t, uint64_t op, const graph::Stamp& begin,
                 const graph::Stamp& end) override {
    times[op] = {begin.ns, end.ns};
  }
  std::map<uint64_t, std::pair<int64_t, int64_t>> times;
};

using Interval = std::pair<int64_t, int64_t>;

// One action of a random program.
struct Action {
  enum Kind { kKernel, kCopy, kFill, kRecord, kWait } kind;
  size_t stream, event, from, to;
  uint32_t size;
};

constexpr size_t kStreams = 4, kEvents = 6, kBuffers = 5;
constexpr uint64_t kBufferBytes = 512;

class RandomGraphsTest : public GraphsTest {
 protected:
  RandomGraphsTest() {
    std::memset(channel.mutable_settings().host_costs_ns, 0,
                sizeof channel.mutable_settings().host_costs_ns);
  }

  // What the engine makes of all records so far: intervals of work, by unique size.
  std::vector<std::map<int64_t, Interval>> Times() {
    graph::Program program(true);
    SizePricer pricer;
    NoSink sink;
    emulator::RecordDecoder decoder(0, &program, &pricer, &sink);
    for (const FakeChannel::Written& record : channel.records()) {
      std::vector<uint64_t> aligned(record.bytes.size() / 8);
      std::memcpy(aligned.data(), record.bytes.data(), record.bytes.size());
      auto* header = reinterpret_cast<protocol::Record*>(aligned.data());
      if (record.kind == RecordKind::kKernel)
        reinterpret_cast<protocol::Kernel*>(header)->name = 0;
      EXPECT_TRUE(decoder.Decode(*header).ok());
    }
    decoder.Finish();
    program.Close();
    graph::SilentObserver observer;
    graph::Engine engine({}, nullptr, nullptr, &observer);
    WorkTimes seen;
    engine.AddRank(0, &program, {});
    engine.ObserveTimeline(0, &seen);
    EXPECT_TRUE(engine.Run().ok());
    std::vector<std::map<int64_t, Interval>> launches(1);
    for (uint64_t op = 0; op < program.size(); ++op) {
      const graph::Op& each = program.op(op);
      if (each.kind != graph::OpKind::kWork)
        continue;
      if (each.value == 0)
        launches.emplace_back();  // a launch begins
      else
        launches.back()[each.value] = seen.times.at(op);
    }
    return launches;
  }

  void Prepare() {
    for (size_t i = 0; i < kStreams; ++i)
      streams_.push_back(NewStream(kStreamNonBlocking));
    for (size_t i = 0; i < kEvents; ++i)
      events_.push_back(NewEvent());
    for (size_t i = 0; i < kBuffers; ++i) {
      buffers_.push_back(NewMemory(kBufferBytes));
      std::vector<unsigned char> bytes(kBufferBytes, static_cast<unsigned char>(i + 1));
      ASSERT_EQ(CopyBytes(buffers_[i], bytes.data(), kBufferBytes), Error::kSuccess);
    }
    channel.Clear();
  }

  // Kernels have from 1,001 blocks on, copies and fills other sizes: all differ.
  void Do(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      void* stream = streams_[action.stream];
      switch (action.kind) {
        case Action::kKernel:
          ASSERT_EQ(LaunchGrid(stream, action.size, buffers_[action.to]),
                    Error::kSuccess);
          break;
        case Action::kCopy:
          ASSERT_EQ(CopyBytes(buffers_[action.to], buffers_[action.from], action.size,
                              stream, true),
                    Error::kSuccess);
          break;
        case Action::kFill:
          ASSERT_EQ(gpu->Fill({.to = buffers_[action.to],
                               .value = action.size,
                               .elements = action.size,
                               .stream = stream,
                               .asynchronous = true}),
                    Error::kSuccess);
          break;
        case Action::kRecord:
          ASSERT_EQ(gpu->RecordEvent(events_[action.event], stream), Error::kSuccess);
          break;
        case Action::kWait:
          ASSERT_EQ(gpu->StreamWaitEvent(stream, events_[action.event]),
                    Error::kSuccess);
          break;
      }
    }
  }

  // Who wrote what, and the bytes that exist.
  std::string Memory() {
    std::string seen;
    for (void* buffer : buffers_) {
      for (const ContentPiece& piece : gpu->libraries().Inspect(buffer, kBufferBytes)) {
        seen += std::to_string(piece.offset) + "+" + std::to_string(piece.bytes) + ":" +
                std::to_string(static_cast<int>(piece.state)) + " ";
      }
      std::vector<unsigned char> bytes(kBufferBytes);
      EXPECT_EQ(CopyBytes(bytes.data(), buffer, kBufferBytes), Error::kSuccess);
      seen.append(bytes.begin(), bytes.end());
    }
    return seen;
  }

  // Starts everything anew.
  void Restart() {
    gpu.reset();
    channel.Clear();
    gpu = std::make_unique<ProcessGpu>(&channel);
    ASSERT_EQ(gpu->EnsureContext(0), Error::kSuccess);
    streams_.clear();
    events_.clear();
    buffers_.clear();
    Prepare();
  }

  std::vector<void*> streams_, events_, buffers_;
};

// A legal capture: stream 0 is the origin; others join by waiting for events of streams
// that take part, and are joined at the end.
std::vector<Action> RandomActions(std::mt19937& random) {
  std::vector<Action> actions;
  std::vector<bool> joined(kStreams), recorded(kEvents);
  joined[0] = true;
  uint32_t kernel_size = 1001;
  uint32_t copy_size = 1;
  auto any = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  const size_t count = 5 + any(40);
  while (actions.size() < count) {
    Action action{Action::kKernel, any(kStreams), any(kEvents),
                  any(kBuffers),   any(kBuffers), 0};
    const auto kind = static_cast<Action::Kind>(any(5));
    action.kind = kind;
    if (kind == Action::kWait ? !recorded[action.event] : !joined[action.stream])
      continue;
    if (kind == Action::kKernel)
      action.size = kernel_size++;
    if (kind == Action::kCopy || kind == Action::kFill)
      action.size = copy_size++;
    if (kind == Action::kCopy && action.from == action.to)
      continue;
    if (kind == Action::kRecord)
      recorded[action.event] = true;
    if (kind == Action::kWait)
      joined[action.stream] = true;
    actions.push_back(action);
  }
  for (size_t stream = 1; stream < kStreams; ++stream) {
    if (!joined[stream])
      continue;
    actions.push_back({Action::kRecord, stream, 0, 0, 0, 0});
    actions.push_back({Action::kWait, 0, 0, 0, 0, 0});
  }
  actions.push_back({Action::kKernel, 0, 0, 0, 0, kernel_size});
  return actions;
}

// Intervals as distances from the earliest start: what came before has no say.
std::map<int64_t, Interval> FromStart(std::map<int64_t, Interval> times) {
  int64_t start = std::numeric_limits<int64_t>::max();
  for (const auto& [size, interval] : times)
    start = std::min(start, interval.first);
  for (auto& [size, interval] : times) {
    interval.first -= start;
    interval.second -= start;
  }
  return times;
}

TEST_F(RandomGraphsTest, CapturedProgramsDoWhatEagerOnesDo) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::vector<Action> actions = RandomActions(random);
    Restart();
    Do(actions);
    const auto eager_times = Times();
    const std::string eager_once = Memory();
    Do(actions);
    const std::string eager_twice = Memory();

    Restart();
    Begin(streams_[0]);
    Do(actions);
    void* exec = Instantiate(End(streams_[0]));
    ASSERT_EQ(graphs().Launch(exec, streams_[0]), Error::kSuccess);
    EXPECT_EQ(Memory(), eager_once);
    channel.Clear();
    // Told anew, and again by name.
    ASSERT_EQ(graphs().DestroyExec(exec), Error::kSuccess);
    Restart();
    Begin(streams_[0]);
    Do(actions);
    exec = Instantiate(End(streams_[0]));
    for (int launch = 0; launch < 3; ++launch)
      ASSERT_EQ(graphs().Launch(exec, streams_[launch == 2 ? 1 : 0]), Error::kSuccess);
    const auto graph_times = Times();
    ASSERT_EQ(graph_times.size(), 4u);
    EXPECT_EQ(graph_times[1], eager_times[0]);
    for (size_t launch = 2; launch <= 3; ++launch)
      EXPECT_EQ(FromStart(graph_times[launch]), FromStart(eager_times[0]));
    EXPECT_EQ(Memory(), eager_twice);
    if (HasFailure())
      break;
  }
}

}  // namespace
}  // namespace vrank::gpu
