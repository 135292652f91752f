// The channel of benchmarks: it copies each record and answers at once, so that the
// figures are those of the library that writes the records.

#ifndef VRANK_BENCH_GUEST_COPYING_CHANNEL_H_
#define VRANK_BENCH_GUEST_COPYING_CHANNEL_H_

#include <cstring>

#include <benchmark/benchmark.h>

#include "base/guest/channel.h"

namespace vrank {

class CopyingChannel : public Channel {
 public:
  CopyingChannel() {
    settings_.devices = settings_.world_size = settings_.local_world_size = 1;
    protocol::GpuProperties& gpu = settings_.gpu;
    gpu.memory_bytes = uint64_t{80} << 30;
    gpu.compute_major = 9;
    gpu.multiprocessors = 132;
    gpu.shared_per_block = 48 << 10;
    gpu.shared_per_block_optin = 227 << 10;
    gpu.shared_per_multiprocessor = 228 << 10;
    gpu.registers_per_multiprocessor = 65536;
    gpu.threads_per_multiprocessor = 2048;
    gpu.blocks_per_multiprocessor = 32;
  }
  const protocol::Settings& settings() const override { return settings_; }
  TimePoint Now() override { return {}; }
  using Channel::Spend;
  void Spend(Duration duration) override { spent_ += duration; }
  Answer Collect(uint32_t) override { return {}; }
  uint32_t Name(std::string_view) override { return 1; }
  std::optional<TimePoint> PublishedEnd(uint32_t, uint32_t) override { return {}; }
  bool ClockIsLocal() override { return true; }
  uint64_t launches() const override { return 0; }
  const unsigned char* bounce() const override { return ring_; }
  void LockBounce() override {}
  void UnlockBounce() override {}
  bool detached() const override { return false; }
  bool ClaimRank() override { return true; }

 protected:
  void EmitRecord(protocol::Record* record, size_t struct_bytes, const void* tail,
                  size_t tail_bytes, uint32_t*) override {
    if (at_ + struct_bytes + tail_bytes > sizeof ring_)
      at_ = 0;
    std::memcpy(ring_ + at_, record, struct_bytes);
    if (tail_bytes > 0)
      std::memcpy(ring_ + at_ + struct_bytes, tail, tail_bytes);
    at_ += struct_bytes + tail_bytes;
    benchmark::ClobberMemory();
  }
  Answer AskRecord(protocol::Record* record, size_t struct_bytes, uint32_t* slot,
                   const void* tail, size_t tail_bytes) override {
    EmitRecord(record, struct_bytes, tail, tail_bytes, slot);
    return {};
  }

 private:
  protocol::Settings settings_{};
  Duration spent_;
  size_t at_ = 0;
  unsigned char ring_[1 << 20];
};

}  // namespace vrank

#endif  // VRANK_BENCH_GUEST_COPYING_CHANNEL_H_
