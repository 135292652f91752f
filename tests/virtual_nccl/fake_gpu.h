// A VirtualGpu without memory: remembers what libnccl tells it about contents.
//
// Joins are written to the channel as the pair of records that a real one writes (the
// token's number is the lane that is waited for), so that one list shows the order of
// everything.
//
// Thread rule: the methods of VirtualGpu may be called from any thread; what a test
// prepares and reads is for one thread.

#ifndef VRANK_TESTS_VIRTUAL_NCCL_FAKE_GPU_H_
#define VRANK_TESTS_VIRTUAL_NCCL_FAKE_GPU_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/guest/virtual_gpu.h"
#include "tests/virtual_gpu/core/fake_channel.h"

namespace vrank::nccl {

class FakeGpu final : public VirtualGpu {
 public:
  explicit FakeGpu(FakeChannel* channel) : channel_(channel) {}
  virtual ~FakeGpu() = default;

  // The handle of a stream on this device and lane.
  static cudaStream_t StreamHandle(int device, uint32_t lane) {
    return reinterpret_cast<cudaStream_t>(uintptr_t{0x10000} * (device + 1) + lane);
  }

  // --- What a test prepares and reads --------------------------------------------
  int current_device = 0;
  int devices = 8;
  uint64_t free_bytes = uint64_t{1} << 40;
  std::map<uint64_t, uint64_t> reserved;  // address -> bytes
  // What Inspect answers for a range that starts here; by default it was computed.
  std::map<const void*, std::vector<ContentPiece>> contents;
  std::function<void()> before_fetch;  // the latest
  struct Result {
    void* address;
    uint64_t bytes;
    protocol::PayloadKey key;
    uint64_t offset;
  };
  std::vector<Result> results;
  struct ContentCopy {
    void* to;
    const void* from;
    uint64_t bytes;
  };
  std::vector<ContentCopy> copies;
  // A node's Repeat is under way: its effects come without brackets.
  bool repeats = false;
  // Captures by lane, and the nodes that they were given.
  std::map<uint32_t, uint64_t> captures;
  std::vector<std::pair<uint32_t, std::shared_ptr<CapturedWork>>> captured;
  int tokens_taken = 0;
  std::map<const void*, int> devices_of_memory;  // else: page-locked memory of the host
  bool faulted = false;

  // --- VirtualGpu --------------------------------------------------------------------
  uint32_t abi() const override { return kAbi; }
  int CurrentDevice() override { return current_device; }
  int DeviceCount() override { return devices; }
  int NodeDevice(int device) override { return device; }
  bool FindStream(void* handle, int device, Stream* stream, int* error) override {
    auto value = reinterpret_cast<uintptr_t>(handle);
    if (value == 0)
      *stream = {device < 0 ? current_device : device, 1};
    else
      *stream = {static_cast<int>(value / 0x10000) - 1,
                 static_cast<uint32_t>(value % 0x10000)};
    if (error != nullptr)
      *error = 400;
    return value == 0 || value >= 0x10000;
  }
  int MemoryDevice(const void* address) override {
    const auto found = devices_of_memory.find(address);
    return found == devices_of_memory.end() ? kHostMemory : found->second;
  }
  void Fault() override { faulted = true; }
  void BeginWork(Stream) override {
    EXPECT_NE(worker_.load(), std::this_thread::get_id());
    work_mutex_.lock();
    worker_ = std::this_thread::get_id();
  }
  void EndWork(Stream) override {
    EXPECT_EQ(worker_.load(), std::this_thread::get_id());
    worker_ = std::thread::id();
    work_mutex_.unlock();
  }
  void Join(Stream waiting, Stream before) override {
    protocol::TokenOnLane record{};
    record.record.kind = protocol::RecordKind::kRecordToken;
    record.lane = record.token = before.lane;
    channel_->Emit(record);
    record.record.kind = protocol::RecordKind::kWaitToken;
    record.lane = waiting.lane;
    channel_->Emit(record);
  }
  void Hold() override {}
  void LetGo() override {}
  uint64_t CaptureOf(Stream stream) override {
    const auto found = captures.find(stream.lane);
    return found == captures.end() ? 0 : found->second;
  }
  bool Capture(Stream stream, std::shared_ptr<CapturedWork> work) override {
    captured.emplace_back(stream.lane, std::move(work));
    return true;
  }
  OwnToken TakeToken() override {
    ++tokens_taken;
    return {++tokens_, 0};
  }
  void GiveBackToken(OwnToken) override { --tokens_taken; }
  uint64_t Reserve(int, uint64_t bytes, protocol::MemoryOwner owner) override {
    EXPECT_EQ(owner, protocol::MemoryOwner::kCommunicator);
    if (bytes > free_bytes)
      return 0;
    free_bytes -= bytes;
    reserved[++addresses_] = bytes;
    return addresses_;
  }
  void GiveBack(int, uint64_t address) override {
    free_bytes += reserved.at(address);
    reserved.erase(address);
  }
  std::vector<ContentPiece> Inspect(const void* address, uint64_t bytes) override {
    EXPECT_NE(worker_.load(), std::this_thread::get_id());
    auto found = contents.find(address);
    if (found != contents.end())
      return found->second;
    return {{protocol::PayloadState::kComputed, 0, bytes, {}, 0}};
  }
  void Read(const void* address, uint64_t bytes, void* out) override {
    std::memcpy(out, address, bytes);
  }
  void SetResult(void* address, uint64_t bytes, protocol::PayloadKey key,
                 uint64_t offset) override {
    EXPECT_TRUE(repeats || worker_.load() == std::this_thread::get_id());
    results.push_back({address, bytes, key, offset});
  }
  void BeforeNextFetch(std::function<void()> call) override {
    before_fetch = std::move(call);
  }
  void CopyContent(void* to, const void* from, uint64_t bytes) override {
    EXPECT_TRUE(repeats || worker_.load() == std::this_thread::get_id());
    copies.push_back({to, from, bytes});
  }

 private:
  FakeChannel* const channel_;
  std::mutex work_mutex_;
  std::atomic<std::thread::id> worker_;  // between BeginWork and EndWork
  uint64_t addresses_ = 0;
  uint32_t tokens_ = 0;
};

}  // namespace vrank::nccl

#endif  // VRANK_TESTS_VIRTUAL_NCCL_FAKE_GPU_H_
