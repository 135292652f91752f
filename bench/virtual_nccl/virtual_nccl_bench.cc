// What libnccl costs the thread that calls it: a collective, and a group of transfers.
//
// The channel and the GPU here do nothing but copy the record, so that the figures are
// libnccl's own. Whoever wants the whole path (ring, locks, contents) adds those of
// virtual_host and virtual_gpu, which have their own benchmarks.

#include <cstring>

#include <benchmark/benchmark.h>

#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/group.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {
namespace {

class CopyingChannel final : public Channel {
 public:
  const protocol::Settings& settings() const override { return settings_; }
  TimePoint Now() override { return {}; }
  using Channel::Spend;
  void Spend(Duration duration) override { spent_ += duration; }
  Answer Collect(uint32_t) override { return {}; }
  uint32_t Name(std::string_view) override { return 0; }
  std::optional<TimePoint> PublishedEnd(uint32_t, uint32_t) override { return {}; }
  bool ClockIsLocal() override { return true; }
  uint64_t launches() const override { return 0; }
  const unsigned char* bounce() const override { return ring_; }
  void LockBounce() override {}
  void UnlockBounce() override {}
  bool detached() const override { return false; }
  bool ClaimRank() override { return true; }

 private:
  void EmitRecord(protocol::Record* record, size_t struct_bytes, const void* tail,
                  size_t tail_bytes, uint32_t*) override {
    if (at_ + struct_bytes + tail_bytes > sizeof ring_)
      at_ = 0;
    memcpy(ring_ + at_, record, struct_bytes);
    if (tail_bytes > 0)
      memcpy(ring_ + at_ + struct_bytes, tail, tail_bytes);
    at_ += struct_bytes + tail_bytes;
    benchmark::ClobberMemory();
  }
  Answer AskRecord(protocol::Record*, size_t, uint32_t*, const void*, size_t) override {
    return {};
  }

  protocol::Settings settings_{};
  Duration spent_;
  size_t at_ = 0;
  unsigned char ring_[1 << 20];
};

class IdleGpu final : public VirtualGpu {
 public:
  uint32_t abi() const override { return kAbi; }
  int CurrentDevice() override { return 0; }
  bool FindStream(void*, int, Stream* stream) override {
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
  void SetComputed(void*, uint64_t) override {}
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
BENCHMARK(BM_GroupedTransfers)->Arg(1)->Arg(7)->Arg(1023);

}  // namespace
}  // namespace vrank::nccl

BENCHMARK_MAIN();
