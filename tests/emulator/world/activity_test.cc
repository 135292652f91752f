// From the program's calls to a profiler's records: the virtual GPU on a guest's
// channel, the emulator behind it, and a listener.

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/world/fake_job.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::emulator {
namespace {

using gpu::ActivityWorkKind;
using testing::ElementsAre;
using testing::HasSubstr;

class Recording final : public gpu::ActivityListener {
 public:
  void OnCall(const gpu::ActivityCall& call) override { calls.push_back(call); }
  void OnWork(const gpu::ActivityWork& row) override {
    work.push_back(row);
    work.back().name = names_.emplace_back(row.name).c_str();
  }
  void OnSync(const gpu::ActivitySync& sync) override { syncs.push_back(sync); }
  void OnEventRecord(const gpu::ActivityEventRecord& record) override {
    events.push_back(record);
  }
  void OnStream(const gpu::ActivityStream& stream) override {
    streams.push_back(stream);
  }
  void OnMemory(const gpu::ActivityMemory& row) override { memory.push_back(row); }
  void OnQueueFull(const gpu::ActivityQueueFull& wait) override {
    queue_full.push_back(wait);
  }
  void OnRange(const gpu::ActivityRange& range) override { ranges.push_back(range); }
  void OnExternalId(const gpu::ActivityExternalId& id) override { ids.push_back(id); }
  void OnEnter(bool, const char* function, uint32_t, const void*,
               const char*) override {
    entered.push_back(function);
  }
  void OnExit(bool, const char* function, uint32_t, const void*, const char*,
              int32_t) override {
    left.push_back(function);
  }
  void OnStreamNow(const gpu::ActivityStream&, void*) override {}
  void OnContextNow(uint32_t, void*, bool) override {}
  void OnGraphNow(const gpu::ActivityGraph&) override {}

  std::vector<gpu::ActivityCall> calls;
  std::vector<gpu::ActivityWork> work;
  std::vector<gpu::ActivitySync> syncs;
  std::vector<gpu::ActivityEventRecord> events;
  std::vector<gpu::ActivityStream> streams;
  std::vector<gpu::ActivityMemory> memory;
  std::vector<gpu::ActivityQueueFull> queue_full;
  std::vector<gpu::ActivityRange> ranges;
  std::vector<gpu::ActivityExternalId> ids;
  std::vector<std::string> entered, left;

 private:
  std::deque<std::string> names_;  // of work: a name goes with its GPU
};

// The segment is this process's own: gives the guest a GPU, and its calls costs.
void PrepareGpu(Channel& channel, uint32_t launch_queue_depth = 1024) {
  auto& settings = const_cast<protocol::Settings&>(channel.settings());
  settings.devices = 1;
  settings.launch_queue_depth = launch_queue_depth;
  settings.gpu.memory_bytes = uint64_t{1} << 30;
  settings.gpu.context_bytes = uint64_t{1} << 20;
  for (uint32_t cost = 0; cost < static_cast<uint32_t>(HostCost::kCount); ++cost)
    settings.host_costs_ns[cost] = 1'000 + cost;
}

// What a program sees of time, and what it does: kernels (m ns each), an event, waits.
struct Seen {
  std::vector<int64_t> clock;
  int64_t elapsed_ns = 0;
  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen Train(gpu::ProcessGpu* gpu, Channel* channel, int steps) {
  gpu::ActivityTap* const tap = &gpu->activity();
  auto call = [&](const char* name, auto step) {
    gpu::CallScope scope(tap, false, name);
    EXPECT_EQ(scope.Leave(step()), gpu::Error::kSuccess);
  };
  Seen seen;
  void *stream = nullptr, *begin = nullptr, *end = nullptr, *memory = nullptr;
  call("cudaStreamCreate", [&] { return gpu->CreateStream(0, 0, &stream); });
  call("cudaEventCreate", [&] { return gpu->CreateEvent(0, &begin); });
  call("cudaEventCreate", [&] { return gpu->CreateEvent(0, &end); });
  call("cudaMalloc", [&] { return gpu->Allocate(1000, &memory); });
  call("cudaEventRecord", [&] { return gpu->RecordEvent(begin, stream); });
  for (int i = 0; i < steps; ++i) {
    gpu::GemmLaunch gemm;
    gemm.name = "cublasGemmEx";
    gemm.stream = stream;
    gemm.m = 20'000;
    gemm.n = gemm.k = gemm.batch = 1;
    EXPECT_EQ(gpu->LaunchGemm(gemm), gpu::Error::kSuccess);
    seen.clock.push_back(channel->Now().nanoseconds());
  }
  call("cudaEventRecord", [&] { return gpu->RecordEvent(end, stream); });
  call("cudaStreamSynchronize", [&] { return gpu->SynchronizeStream(stream); });
  seen.clock.push_back(channel->Now().nanoseconds());
  EXPECT_EQ(gpu->ElapsedNanoseconds(begin, end, &seen.elapsed_ns),
            gpu::Error::kSuccess);
  call("cudaFree", [&] { return gpu->Free(memory); });
  seen.clock.push_back(channel->Now().nanoseconds());
  return seen;
}

// The gap before a kernel takes time, but not the kernel's: what a program sees stays.
TEST(ActivityTest, AGapBeforeAKernelIsNotTheKernels) {
  constexpr int64_t kGap = 1'200;
  const auto run = [](int64_t gap, Recording* told) {
    Seen seen;
    FakeJob job(1,
                {{0,
                  [&](Guest& guest) {
                    PrepareGpu(guest.channel());
                    gpu::ProcessGpu gpu(&guest.channel());
                    gpu.activity().SetListener(told);
                    seen = Train(&gpu, &guest.channel(), 3);
                    gpu.activity().Flush(true);
                  }}},
                {}, Duration::Nanoseconds(500), gap);
    EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished);
    return seen;
  };
  Recording without, with;
  EXPECT_EQ(run(0, &without), run(kGap, &with));
  ASSERT_EQ(with.work.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(with.work[i].start_ns, without.work[i].start_ns + kGap);
    EXPECT_EQ(with.work[i].end_ns, without.work[i].end_ns);
  }
  EXPECT_EQ(with.work[2].start_ns, with.work[1].end_ns + kGap);
}

// As a profiler ends: it waits for the device and takes the records that are complete.
TEST(ActivityTest, AFlushReportsWhatTheProgramHasWaitedFor) {
  constexpr size_t kSteps = 300;
  Recording told;
  std::vector<size_t> work;
  FakeJob job(1, {{0, [&](Guest& guest) {
                     PrepareGpu(guest.channel());
                     gpu::ProcessGpu gpu(&guest.channel());
                     gpu.activity().SetListener(&told);
                     void* stream = nullptr;
                     EXPECT_EQ(gpu.CreateStream(0, 0, &stream), gpu::Error::kSuccess);
                     gpu::GemmLaunch gemm;
                     gemm.name = "cublasGemmEx";
                     gemm.stream = stream;
                     gemm.m = 20'000;
                     gemm.n = gemm.k = gemm.batch = 1;
                     for (size_t i = 0; i < kSteps; ++i) {
                       EXPECT_EQ(gpu.LaunchGemm(gemm), gpu::Error::kSuccess);
                       EXPECT_EQ(gpu.SynchronizeStream(stream), gpu::Error::kSuccess);
                       gpu.activity().Flush(false);
                       work.push_back(told.work.size());
                     }
                   }}});
  ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished);
  for (size_t i = 0; i < kSteps; ++i)
    EXPECT_EQ(work[i], i + 1);
}

TEST(ActivityTest, ReportsCallsAndWorkWithTheirTimes) {
  Recording told;
  int64_t now = 0, clock = 0;
  FakeJob job(1, {{0, [&](Guest& guest) {
                     PrepareGpu(guest.channel());
                     gpu::ProcessGpu gpu(&guest.channel());
                     gpu.activity().SetListener(&told);
                     gpu.activity().PushExternalId(3, 77);
                     Train(&gpu, &guest.channel(), 3);
                     now = gpu.activity().Now();
                     clock = guest.channel().Now().nanoseconds();
                     gpu.activity().Flush(true);
                   }}});
  ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished);
  EXPECT_EQ(now, clock);

  std::vector<std::string> names;
  int64_t last_end = 0;
  uint32_t correlation = 0;
  for (const gpu::ActivityCall& call : told.calls) {
    names.push_back(call.function);
    EXPECT_GE(call.start_ns, last_end);
    EXPECT_GT(call.end_ns, call.start_ns);
    EXPECT_EQ(call.correlation, ++correlation);
    last_end = call.end_ns;
  }
  EXPECT_THAT(names,
              ElementsAre("cudaStreamCreate", "cudaEventCreate", "cudaEventCreate",
                          "cudaMalloc", "cudaEventRecord", "cuLaunchKernelEx",
                          "cuLaunchKernelEx", "cuLaunchKernelEx", "cudaEventRecord",
                          "cudaStreamSynchronize", "cudaFree"));
  EXPECT_EQ(told.entered, names);
  EXPECT_EQ(told.left, names);
  EXPECT_EQ(told.ids.size(), names.size());

  ASSERT_EQ(told.work.size(), 3u);
  int64_t lane = 0;
  for (size_t i = 0; i < 3; ++i) {
    const gpu::ActivityWork& work = told.work[i];
    EXPECT_EQ(work.correlation, 6 + i);
    EXPECT_STREQ(work.name, "cublasGemmEx");
    EXPECT_EQ(work.end_ns - work.start_ns, 20'000);
    // The first one could begin when the launch had passed; others queue behind it.
    EXPECT_GE(work.start_ns, std::max(lane, told.calls[5 + i].end_ns));
    lane = work.end_ns;
  }
  ASSERT_EQ(told.events.size(), 2u);
  EXPECT_EQ(told.events[1].device_ns, std::max(lane, told.events[1].device_ns));
  EXPECT_NE(told.events[0].event, told.events[1].event);
  ASSERT_EQ(told.syncs.size(), 2u);  // the stream, and cudaFree's wait for the device
  EXPECT_EQ(told.syncs[0].kind, gpu::ActivitySyncKind::kStream);
  EXPECT_EQ(told.syncs[0].end_ns, lane);
  EXPECT_LE(told.calls[9].start_ns, told.syncs[0].start_ns);
  EXPECT_EQ(told.calls[9].end_ns, told.syncs[0].end_ns);
  ASSERT_EQ(told.memory.size(), 3u);  // context, taken, given back
  EXPECT_EQ(told.memory[1].device_delta_bytes, -told.memory[2].device_delta_bytes);
  EXPECT_TRUE(told.queue_full.empty());
}

TEST(ActivityTest, ChangesNoTime) {
  for (const int depth : {2, 1024}) {
    std::vector<Seen> seen(2);
    for (const bool listens : {false, true}) {
      Recording told;
      WorldOptions options;
      options.engine.launch_queue_depth = static_cast<uint32_t>(depth);
      FakeJob job(1,
                  {{0,
                    [&](Guest& guest) {
                      PrepareGpu(guest.channel(), static_cast<uint32_t>(depth));
                      gpu::ProcessGpu gpu(&guest.channel());
                      if (listens)
                        gpu.activity().SetListener(&told);
                      seen[listens] = Train(&gpu, &guest.channel(), 40);
                      gpu.activity().Flush(true);
                    }}},
                  std::move(options));
      ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished);
      EXPECT_EQ(told.work.size(), listens ? 40u : 0u);
    }
    EXPECT_EQ(seen[0], seen[1]) << "depth " << depth;
  }
}

TEST(ActivityTest, TellsOfAFullLaunchQueue) {
  Recording told;
  WorldOptions options;
  options.engine.launch_queue_depth = 2;
  FakeJob job(1,
              {{0,
                [&](Guest& guest) {
                  PrepareGpu(guest.channel(), 2);
                  gpu::ProcessGpu gpu(&guest.channel());
                  gpu.activity().SetListener(&told);
                  Train(&gpu, &guest.channel(), 10);
                  gpu.activity().Flush(true);
                }}},
              std::move(options));
  ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished);
  ASSERT_EQ(told.work.size(), 10u);
  ASSERT_EQ(told.queue_full.size(), 8u);
  // The third launch stood until the first one had ended.
  EXPECT_EQ(told.queue_full[0].end_ns, told.work[0].end_ns);
  EXPECT_EQ(told.queue_full[0].correlation, told.work[2].correlation);
}

// Work that waits for another rank is reported once that has come; the flush waits for
// it in the emulator, so that the other rank is not held up.
TEST(ActivityTest, FlushWaitsForOtherRanks) {
  Recording told;
  std::map<int32_t, FakeJob::Program> programs;
  programs[0] = [&](Guest& guest) {
    PrepareGpu(guest.channel());
    gpu::ProcessGpu gpu(&guest.channel());
    gpu.activity().SetListener(&told);
    EXPECT_EQ(gpu.EnsureContext(0), gpu::Error::kSuccess);
    guest.Init(2);
    VirtualGpu::Stream stream;
    ASSERT_TRUE(gpu.libraries().FindStream(nullptr, -1, &stream, nullptr));
    protocol::Collective call{};
    call.record.kind = protocol::RecordKind::kCollective;
    call.lane = stream.lane;
    call.communicator = 1;
    call.count = 1;
    call.type = protocol::ElementType::kInt32;
    gpu.libraries().BeginWork(stream);
    guest.channel().Emit(call);
    gpu.libraries().DescribeWork(call.record);
    gpu.libraries().EndWork(stream);
    gpu.activity().Flush(true);
    EXPECT_EQ(told.work.size(), 1u);
  };
  programs[1] = [](Guest& guest) {
    guest.Init(2);
    guest.Record(1);
    guest.Query(1);
    guest.AllReduce();
    guest.Synchronize();
  };
  FakeJob job(2, programs);
  ASSERT_EQ(job.Run(), FakeJob::Outcome::kFinished);
  ASSERT_EQ(told.work.size(), 1u);
  EXPECT_EQ(told.work[0].kind, ActivityWorkKind::kCollective);
  EXPECT_STREQ(
      told.work[0].name,
      "_Z39ncclDevKernel_AllReduce_Sum_u32_RING_LL24ncclDevKernelArgsStorageILm"
      "4096EE");
  EXPECT_EQ(told.calls.back().function, std::string("cuLaunchKernelEx"));
}

}  // namespace
}  // namespace vrank::emulator
