// What libnccl costs the thread that calls it: a collective, and a group of transfers.
//
// The channel and the GPU here do nothing but copy the record, so that the figures are
// libnccl's own. Whoever wants the whole path (ring, locks, contents) adds those of
// virtual_host and virtual_gpu, which have their own benchmarks.

#include <sys/resource.h>

#include <cstring>

#include <benchmark/benchmark.h>

#include "bench/guest/copying_channel.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/group.h"
#include "virtual_nccl/core/library.h"
#include "virtual_nccl/core/release.h"

namespace vrank::nccl {
namespace {

class IdleGpu final : public VirtualGpu {
 public:
  uint32_t abi() const override { return kAbi; }
  int CurrentDevice() override { return 0; }
  int DeviceCount() override { return 1; }
  int NodeDevice(int device) override { return device; }
  bool FindStream(void*, int, Stream* stream, int*) override {
    *stream = {0, 1};
    return true;
  }
  void BeginWork(Stream) override {}
  void EndWork(Stream) override {}
  void Join(Stream, Stream) override {}
  void Hold() override {}
  void LetGo() override {}
  uint64_t CaptureOf(Stream) override { return 0; }
  bool Capture(Stream, std::shared_ptr<CapturedWork>) override { return false; }
  OwnToken TakeToken() override { return {1, 0}; }
  void GiveBackToken(OwnToken) override {}
  uint64_t Reserve(int, uint64_t, protocol::MemoryOwner) override { return 1; }
  void GiveBack(int, uint64_t) override {}
  std::vector<ContentPiece> Inspect(const void*, uint64_t bytes) override {
    return {{protocol::PayloadState::kComputed, 0, bytes, {}, 0}};
  }
  void Read(const void*, uint64_t, void*) override {}
  void SetResult(void*, uint64_t, protocol::PayloadKey, uint64_t) override {}
  void CopyContent(void*, const void*, uint64_t) override {}
};

struct Process {
  explicit Process(int ranks) {
    const ncclUniqueId id{};
    InitRank(nccl, group,
             {.function = "bench", .out = &communicator, .ranks = ranks, .ids = &id});
  }
  CopyingChannel channel;
  IdleGpu gpu;
  Library nccl{&channel, &gpu};
  Group group;
  ncclComm_t communicator = nullptr;
};

void BM_AllReduce(benchmark::State& state) {
  Process process(8);
  for (auto _ : state)
    benchmark::DoNotOptimize(Enqueue(process.nccl, process.group,
                                     {.function = "ncclAllReduce",
                                      .count = 1 << 20,
                                      .type = ncclBfloat16,
                                      .communicator = process.communicator}));
}
BENCHMARK(BM_AllReduce);

// An exchange with every peer, as PyTorch's all-to-all writes it; time per transfer.
void BM_GroupedTransfers(benchmark::State& state) {
  const int peers = static_cast<int>(state.range(0));
  Process process(peers + 1);
  for (auto _ : state) {
    process.group.Start();
    for (int peer = 1; peer <= peers; ++peer)
      for (auto kind : {Request::kSend, Request::kReceive})
        Enqueue(process.nccl, process.group,
                {.function = "ncclSend",
                 .kind = kind,
                 .count = 1 << 20,
                 .type = ncclBfloat16,
                 .root = peer,
                 .communicator = process.communicator});
    benchmark::DoNotOptimize(process.group.End(process.nccl));
  }
  state.SetItemsProcessed(state.iterations() * peers * 2);
}
BENCHMARK(BM_GroupedTransfers)->Arg(1)->Arg(7)->Arg(1023)->Arg(8191);

// `grown_mib`: by how much the process has grown.
void BM_CreateAndDestroy(benchmark::State& state) {
  Process process(8);
  const auto resident = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
  };
  const double before = resident();
  for (auto _ : state) {
    const ncclUniqueId id{};
    ncclComm_t communicator = nullptr;
    InitRank(process.nccl, process.group,
             {.function = "bench", .out = &communicator, .ranks = 8, .ids = &id});
    Destroy(process.nccl, communicator);
  }
  state.counters["grown_mib"] = resident() - before;
}
BENCHMARK(BM_CreateAndDestroy)->Iterations(1'000'000);

}  // namespace
}  // namespace vrank::nccl

BENCHMARK_MAIN();
