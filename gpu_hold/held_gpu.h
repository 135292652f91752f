// A real GPU as libnccl sees it: the same interface as the virtual one, with streams
// that are held where the virtual one has a clock.
//
//   program    ncclAllReduce(..., stream)
//   HeldGpu    queues a hold kernel on the stream (hold_service.h); the call returns
//   device     gets to the hold
//   courier    tells the emulator, waits for the operation's end, releases
//   device     the stream goes on
//
// What is not here: bytes. Results of collectives of several ranks stay what the
// receive buffer held (a communicator of one rank copies).
//
// Thread rule: as VirtualGpu, whose lock it has none of: a launch may wait for the
// device's queue, and other communicators, aborts above all, do not wait for that.
// Calls of one communicator are libnccl's to keep apart.

#ifndef VRANK_GPU_HOLD_HELD_GPU_H_
#define VRANK_GPU_HOLD_HELD_GPU_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/guest/channel.h"
#include "base/guest/virtual_gpu.h"
#include "gpu_hold/gpu_streams.h"
#include "gpu_hold/hold_courier.h"
#include "gpu_hold/hold_service.h"
#include "gpu_hold/operation_order.h"

namespace vrank::hold {

struct HeldGpuOptions {
  // CTAs of a large collective: NCCL's channels. An assumption: NCCL asks its topology.
  uint32_t channels = 16;
  uint32_t compute_major = 9;
  int64_t time_origin_ns = 0;  // CLOCK_MONOTONIC at the job's virtual time 0
  Duration patience = Duration::Seconds(30);  // HoldService::Options::patience
  // Called with the device's context current.
  std::function<std::unique_ptr<HoldDriver>(std::string* error)> make_driver;
};

class HeldGpu final : public VirtualGpu {
 public:
  // Both outlive the object. REQUIRES: the process has claimed its rank.
  HeldGpu(Channel* channel, GpuStreams* streams, HeldGpuOptions options);
  virtual ~HeldGpu();

  uint32_t abi() const override { return kAbi; }
  int CurrentDevice() override { return streams_->CurrentDevice(); }
  int DeviceCount() override { return streams_->DeviceCount(); }
  int NodeDevice(int device) override { return device; }
  bool FindStream(void* handle, int device, Stream* stream, int* error) override;
  void BeginWork(Stream stream) override;
  void EndWork(Stream stream) override;
  void Join(Stream waiting, Stream before) override;
  OwnToken TakeToken() override;
  void GiveBackToken(OwnToken token) override;
  void Hold() override {}
  void LetGo() override {}
  uint64_t CaptureOf(Stream stream) override;
  // Work of a captured stream is launched like any other: CUDA captures it.
  bool Capture(Stream, std::shared_ptr<CapturedWork>) override { return false; }
  uint64_t Reserve(int device, uint64_t bytes, protocol::MemoryOwner owner) override;
  void GiveBack(int device, uint64_t address) override;
  std::vector<ContentPiece> Inspect(const void*, uint64_t) override { return {}; }
  void Read(const void*, uint64_t, void*) override {}
  void SetResult(void*, uint64_t, protocol::PayloadKey, uint64_t) override {}
  void CopyContent(void* to, const void* from, uint64_t bytes) override;

  bool HoldsStreams() const override { return true; }
  void CountHostTime() override { courier_->AdvanceHostClock(); }
  bool OpenHolds(uint32_t communicator, int device, uint32_t ranks) override;
  void EndHolds(uint32_t communicator, protocol::ReleaseKind kind) override;
  bool HoldStream(Stream stream, const protocol::Record& record, const void* tail,
                  size_t tail_bytes, const HeldResult& result) override;
  std::string HoldFailure() override;

  // Ends all holds, now and from now on.
  void AbortHolds();

 private:
  struct Device {
    std::unique_ptr<HoldDriver> driver;
    std::unique_ptr<HoldService> service;
  };
  struct Holds {
    explicit Holds(GpuStreams* streams) : order(streams) {}

    HoldService* service = nullptr;
    HoldRing* ring = nullptr;
    OwnToken token;
    uint32_t ranks = 1;
    int device = 0;
    std::mutex mutex;  // for what follows, and over a launch
    bool ended = false;
    OperationOrder order;
  };

  void Fail(const std::string& what);
  void* HandleOf(uint32_t lane);
  std::shared_ptr<Holds> FindHolds(uint32_t communicator);
  // nullptr: there is none, and Fail has been told why. REQUIRES: its device entered.
  HoldService* FindService(int device);
  void AwaitGraphs(Holds* holds);

  Channel* const channel_;
  GpuStreams* const streams_;
  const HeldGpuOptions options_;
  std::recursive_mutex mutex_;
  std::string failure_;                       // what happened first
  std::vector<std::pair<int, void*>> lanes_;  // device and handle of lane i + 1
  std::map<std::pair<int, void*>, uint32_t> lane_of_;
  static thread_local Stream working_;  // between BeginWork and EndWork
  uint32_t tokens_ = 0;
  std::vector<uint32_t> free_tokens_;
  // Of communicators that are gone: their generations count on in the engine.
  std::vector<OwnToken> free_hold_tokens_;
  std::map<int, Device> devices_;
  std::map<uint32_t, std::shared_ptr<Holds>> communicators_;
  std::unique_ptr<HoldCourier> courier_;
};

// The process's real GPU; `time_origin_ns`: HeldGpuOptions'. nullptr: *error says what
// is missing.
VirtualGpu* MakeHeldGpu(Channel* channel, int64_t time_origin_ns, std::string* error);

}  // namespace vrank::hold

#endif  // VRANK_GPU_HOLD_HELD_GPU_H_
