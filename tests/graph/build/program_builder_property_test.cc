// The program built from a rendered trace is the one that was decoded from the records
// of the same run.

#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/build/host_timeline.h"
#include "graph/build/program_builder.h"
#include "graph/build/program_comparison.h"
#include "tests/graph/build/traced_gpu.h"

namespace vrank::graph {
namespace {

// CUpti_ActivityMemcpyKind.
constexpr uint32_t kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 8;

// A program that does everything, at random.
class RandomProgram {
 public:
  RandomProgram(uint32_t seed, TracedGpu::Options options)
      : random_(seed), gpu_(options), host_(size_t{1} << 20) {
    device_ = gpu_.Allocate(size_t{8} << 20);
    pinned_ = gpu_.AllocateHost(size_t{1} << 20);
    communicators_.push_back(gpu_.InitCommunicator(8, 3));
    streams_.push_back(nullptr);
  }

  TracedGpu& Run(int steps) {
    for (int i = 0; i < steps; ++i)
      Step();
    gpu_.Finish();
    return gpu_;
  }

 private:
  size_t Below(size_t n) { return random_() % n; }
  template <typename T>
  T& Any(std::vector<T>& all) {
    return all[Below(all.size())];
  }
  template <typename T>
  T TakeAny(std::vector<T>& all) {
    const size_t index = Below(all.size());
    T taken = all[index];
    all.erase(all.begin() + static_cast<ptrdiff_t>(index));
    return taken;
  }
  uint32_t Grid() { return 1 + static_cast<uint32_t>(Below(40)); }

  void Step() {
    switch (Below(13)) {
      case 0:
        return Streams();
      case 1:
      case 2:
      case 3:
        return gpu_.Launch(Any(streams_), Grid());
      case 4:
        return gpu_.Gemm(Any(streams_), Grid());
      case 5:
      case 6:
        return Events();
      case 7:
        return HostWaits();
      case 8:
        return Memory();
      case 9:
        return Copies();
      case 10:
        return Communication();
      case 11:
        return Queries();
      default:
        return Host();
    }
  }

  void Streams() {
    if (streams_.size() < 5 && Below(3) != 0)
      streams_.push_back(gpu_.NewStream(Below(2) == 0));
    else if (streams_.size() > 2)
      DestroyStream();
  }
  void DestroyStream() {
    // The first one is the legacy default stream.
    const size_t index = 1 + Below(streams_.size() - 1);
    gpu_.DestroyStream(streams_[index]);
    streams_.erase(streams_.begin() + static_cast<ptrdiff_t>(index));
  }

  void Events() {
    if (events_.size() < 2 || (events_.size() < 6 && Below(4) == 0))
      events_.push_back(gpu_.NewEvent());
    else if (Below(8) == 0)
      gpu_.DestroyEvent(TakeAny(events_));
    else if (Below(2) == 0)
      gpu_.RecordEvent(Any(events_), Any(streams_));
    else
      gpu_.WaitEvent(Any(streams_), Any(events_));
  }

  void HostWaits() {
    if (Below(4) == 0)
      gpu_.SynchronizeDevice();
    else if (Below(2) == 0 && !events_.empty())
      gpu_.SynchronizeEvent(Any(events_));
    else
      gpu_.SynchronizeStream(Any(streams_));
  }

  void Memory() {
    if (Below(3) == 0 && !plain_.empty())
      gpu_.Free(TakeAny(plain_));
    else if (Below(3) == 0)
      plain_.push_back(gpu_.Allocate(Below(2) == 0 ? 1000 : 5'000'000));
    else if (Below(2) == 0 && !pooled_.empty())
      gpu_.FreeAsync(TakeAny(pooled_), Any(streams_));
    else
      pooled_.push_back(gpu_.AllocateAsync(100'000 * (1 + Below(30)), Any(streams_)));
  }

  void Copies() {
    void* const host = Below(2) == 0 ? pinned_ : host_.data();
    const uint64_t bytes = Below(2) == 0 ? 4096 : 300'000;
    const bool asynchronous = Below(2) == 0;
    void* const stream = Any(streams_);
    switch (Below(4)) {
      case 0:
        return gpu_.Copy(device_, host, bytes, kHostToDevice, asynchronous, stream);
      case 1:
        return gpu_.Copy(host, device_, bytes, kDeviceToHost, asynchronous, stream);
      case 2:
        return gpu_.Copy(device_, static_cast<char*>(device_) + (4 << 20), bytes,
                         kDeviceToDevice, asynchronous, stream);
      default:
        return gpu_.Fill(device_, bytes, stream);
    }
  }

  void Communication() {
    switch (Below(6)) {
      case 0:
        communicators_.push_back(gpu_.SplitCommunicator(communicators_[0], 1));
        return;
      case 1:
        if (communicators_.size() > 2) {
          gpu_.ReleaseCommunicator(communicators_.back());
          communicators_.pop_back();
        }
        return;
      case 2:
        return gpu_.Transfers(Any(communicators_), {{1000 + Below(5), 1, 1}, {8, 2, 0}},
                              Any(streams_));
      default:
        return gpu_.Collective(Any(communicators_), 1 + Below(100), Any(streams_));
    }
  }

  void Queries() {
    if (events_.empty() || Below(3) == 0) {
      gpu_.QueryStream(Any(streams_));
      return;
    }
    void* const event = Any(events_);
    // Long loops end in one record that stands for the rest.
    for (size_t i = Below(3) == 0 ? 80 : 2; i > 0 && !gpu_.QueryEvent(event); --i) {
    }
  }

  void Host() {
    if (Below(2) == 0)
      return gpu_.Sleep(1 + static_cast<int64_t>(Below(30'000)));
    gpu_.Range(Below(2) == 0 ? "iteration" : "forward", Below(2) == 0);
  }

  std::mt19937 random_;
  TracedGpu gpu_;
  std::vector<char> host_;
  void* device_;
  void* pinned_;
  std::vector<void*> streams_, events_, plain_, pooled_;
  std::vector<uint32_t> communicators_;
};

void ExpectSamePrograms(const TracedGpu& run) {
  const absl::StatusOr<BuiltProgram> built = BuildProgram(run.trace());
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(FirstDifference(run.program(), *built->program), "");
}

class ProgramBuilderPropertyTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ProgramBuilderPropertyTest, RebuildsTheDecodedProgram) {
  for (uint32_t i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    RandomProgram program(GetParam() * 1000 + i, {});
    ExpectSamePrograms(program.Run(150));
    if (HasFailure())
      return;
  }
}

TEST_P(ProgramBuilderPropertyTest, RebuildsItBehindAShortLaunchQueue) {
  for (uint32_t i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    RandomProgram program(GetParam() * 1000 + i, {.launch_queue_depth = 3});
    ExpectSamePrograms(program.Run(150));
    if (HasFailure())
      return;
  }
}

TEST_P(ProgramBuilderPropertyTest, FindsTheWaitsOfCopiesWithoutRows) {
  for (uint32_t i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    RandomProgram program(GetParam() * 1000 + i, {.sync_rows_of_copies = false});
    ExpectSamePrograms(program.Run(150));
    if (HasFailure())
      return;
  }
}

using SourceAndTime = std::pair<Source, int64_t>;

// Host time in its order, waits left out; the builder knows no other sources.
std::vector<SourceAndTime> HostTimeBySource(const Program& program) {
  std::vector<SourceAndTime> parts;
  for (uint64_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    if (op.from_helper != 0 || op.host_ns == 0)
      continue;
    const Source source =
        op.host_source == Source::kModelled ? Source::kAssumed : op.host_source;
    if (!parts.empty() && parts.back().first == source)
      parts.back().second += op.host_ns;
    else
      parts.emplace_back(source, op.host_ns);
  }
  return parts;
}

TEST_P(ProgramBuilderPropertyTest, RebuildsTheSourcesOfHostTime) {
  size_t parts = 0;
  for (uint32_t i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    RandomProgram program(GetParam() * 1000 + i, {});
    const TracedGpu& run = program.Run(150);
    std::mt19937 random(i);
    Program emulated(/*retain=*/true);
    for (uint64_t at = 0; at < run.program().size(); ++at) {
      Op op = run.program().op(at);
      op.host_source = static_cast<Source>(random() % 4);
      emulated.Append(op);
    }
    emulated.Close();
    RankTrace trace = run.trace();
    trace.host_times = HostTimesOf(emulated);
    const absl::StatusOr<BuiltProgram> built = BuildProgram(trace);
    ASSERT_TRUE(built.ok()) << built.status();
    EXPECT_EQ(FirstDifference(run.program(), *built->program), "");
    EXPECT_EQ(HostTimeBySource(*built->program), HostTimeBySource(emulated));
    parts += trace.host_times.size();
  }
  EXPECT_GT(parts, 200u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ProgramBuilderPropertyTest,
                         ::testing::Range<uint32_t>(0, 4));

}  // namespace
}  // namespace vrank::graph
