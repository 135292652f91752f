// What a guest pays per call: a record, a known end, a question, a reading of the
// clock, and following the program's own time between calls.
//
// Targets: Emit < 100 ns, a known end < 200 ns, a question < 10 us while the emulator
// has a core of its own. The emulator here is a thread that answers at once, either
// spinning (BM_AskSpinning) or sleeping on its doorbell (BM_AskSleeping: two wake-ups).

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include <benchmark/benchmark.h>

#include "base/guest/program_call.h"
#include "emulator/connect/guest_link.h"
#include "emulator/host_time/machine.h"
#include "virtual_host/channel/connection.h"
#include "virtual_host/channel/guest_channel.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
namespace {

using emulator::GuestLink;

// The caller's core from here on; without effect where there is no such core.
void StayOnCore(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

class Rank {
 public:
  explicit Rank(bool sleeps, protocol::Settings settings = {}) : sleeps_(sleeps) {
    settings.launch_queue_depth = ~0u;
    thread_state = {};  // that of the rank before
    link_ = std::move(GuestLink::Create(settings).value());
    MapSegment(link_->memfd(), &connection_);
    connection_.doorbell = eventfd(0, EFD_NONBLOCK);
    channel_ = new GuestChannel(connection_);  // outlives its threads, as in a process
    channel_->ClaimRank();
    StayOnCore(0);
    thread_ = std::thread([this] {
      StayOnCore(1);
      Run();
    });
  }
  ~Rank() {
    stop_ = true;
    thread_.join();
    close(connection_.doorbell);
  }
  GuestChannel& channel() { return *channel_; }
  GuestLink& link() { return *link_; }

 private:
  void Run() {
    while (!stop_) {
      while (const protocol::Record* record = link_->Next()) {
        if (record->kind == protocol::RecordKind::kHostWaitLane)
          link_->Answer(reinterpret_cast<const protocol::HostWait*>(record)->slot, {});
        link_->Consume();
      }
      if (sleeps_)
        Sleep();
    }
  }
  void Sleep() {
    link_->PrepareToSleep(GuestLink::WakeFor::kQuestions);
    pollfd ready{connection_.doorbell, POLLIN, 0};
    if (link_->BytesWaiting() == 0)
      poll(&ready, 1, 1);
    link_->WokeUp();
    uint64_t rings;
    [[maybe_unused]] const ssize_t got =
        read(connection_.doorbell, &rings, sizeof rings);
  }

  const bool sleeps_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<GuestLink> link_;
  Connection connection_;
  GuestChannel* channel_;
  std::thread thread_;
};

void BM_Emit(benchmark::State& state) {
  Rank rank(/*sleeps=*/true);
  protocol::Kernel record{};
  record.record.kind = protocol::RecordKind::kKernel;
  const char arguments[32] = {};
  record.argument_bytes = sizeof arguments;
  for (auto _ : state)
    rank.channel().Emit(record, arguments, sizeof arguments);
}
BENCHMARK(BM_Emit);

void BM_KnownEnd(benchmark::State& state) {
  Rank rank(/*sleeps=*/true);
  rank.link().Publish(7, 1, 100);
  protocol::HostQuery record{};
  record.record.kind = protocol::RecordKind::kHostQuery;
  record.slot = protocol::kNoSlot;
  for (auto _ : state) {
    benchmark::DoNotOptimize(rank.channel().PublishedEnd(7, 1));
    rank.channel().Emit(record);
  }
}
BENCHMARK(BM_KnownEnd);

void Ask(benchmark::State& state, bool sleeps) {
  Rank rank(sleeps);
  protocol::HostWait question{};
  question.record.kind = protocol::RecordKind::kHostWaitLane;
  for (auto _ : state)
    benchmark::DoNotOptimize(rank.channel().Ask(question));
}
void BM_AskSpinning(benchmark::State& state) {
  Ask(state, false);
}
void BM_AskSleeping(benchmark::State& state) {
  Ask(state, true);
}
BENCHMARK(BM_AskSpinning)->UseRealTime();
BENCHMARK(BM_AskSleeping)->UseRealTime();

void BM_Now(benchmark::State& state) {
  Rank rank(/*sleeps=*/true);
  for (auto _ : state) {
    rank.channel().Spend(Duration::Nanoseconds(25));
    benchmark::DoNotOptimize(rank.channel().Now());
  }
}
BENCHMARK(BM_Now);

void BM_Name(benchmark::State& state) {
  Rank rank(/*sleeps=*/true);
  for (auto _ : state)
    benchmark::DoNotOptimize(rank.channel().Name("ncclDevKernel_AllReduce_Sum_bf16"));
}
BENCHMARK(BM_Name);

// A call with a record of its own, as a launch is, and all that follows from
// --host-time and --record-host-time.
void CallsWith(benchmark::State& state, protocol::HostTime mode, bool records) {
  protocol::Settings settings{};
  settings.host_time = mode;
  settings.records_gaps = records ? 1 : 0;
  settings.host_speed_millionths = 1'000'000;
  settings.ns_per_2_32_ticks = emulator::NsPer2To32Ticks();
  Rank rank(/*sleeps=*/true, settings);
  protocol::Gemm record{};
  record.record.kind = protocol::RecordKind::kGemm;
  record.name = rank.channel().Name("cublasGemmEx");
  for (auto _ : state) {
    ProgramCall call(&rank.channel(), "cublasGemmEx");
    rank.channel().Emit(record);
  }
}
void BM_CallModelled(benchmark::State& state) {
  CallsWith(state, protocol::HostTime::kModelled, false);
}
void BM_CallMeasured(benchmark::State& state) {
  CallsWith(state, protocol::HostTime::kMeasured, false);
}
void BM_CallPlayed(benchmark::State& state) {
  CallsWith(state, protocol::HostTime::kRecorded, false);
}
void BM_CallMeteredForARecording(benchmark::State& state) {
  CallsWith(state, protocol::HostTime::kModelled, true);
}
BENCHMARK(BM_CallModelled);
BENCHMARK(BM_CallMeasured);
BENCHMARK(BM_CallPlayed);
BENCHMARK(BM_CallMeteredForARecording);

}  // namespace
}  // namespace vrank::host

BENCHMARK_MAIN();
