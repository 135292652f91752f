// Streams, events and memory of the host backend.

#include "examples/gpt_trainer/device/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "examples/gpt_trainer/device/checks.h"
#include "examples/gpt_trainer/device/host/host_group.h"
#include "examples/gpt_trainer/device/host/host_stream.h"
#include "examples/gpt_trainer/device/host/host_world.h"

namespace gpt {

// Fresh memory holds NaNs: a sum over what nobody wrote shows.
void* AllocateOnDevice(size_t bytes) {
  constexpr size_t kPoisoned = size_t{1} << 20;  // large buffers are workspaces
  void* data = std::malloc(bytes);
  if (data != nullptr) {
    std::memset(data, 0xff, std::min(bytes, kPoisoned));
  }
  return data;
}

void FreeOnDevice(void* data) {
  SynchronizeDevice();  // as cudaFree does
  std::free(data);
}

void SetToZero(void* data, size_t bytes, StreamHandle stream) {
  stream->Enqueue([=] { std::memset(data, 0, bytes); });
}

void CopyToDevice(void* device, const void* host, size_t bytes, StreamHandle stream) {
  CopyOnDevice(device, host, bytes, stream);
}

void CopyToHost(void* host, const void* device, size_t bytes, StreamHandle stream) {
  CopyOnDevice(host, device, bytes, stream);
}

void CopyOnDevice(void* to, const void* from, size_t bytes, StreamHandle stream) {
  stream->Enqueue([=] { std::memcpy(to, from, bytes); });
}

void SynchronizeDevice() {
  for (HostStream* stream : HostRank::Current().streams) {
    stream->Synchronize();
  }
}

Stream::Stream() {
  HostRank& rank = HostRank::Current();
  const uint64_t jitter = rank.job->jitter;
  const uint64_t number = rank.streams.size();
  handle_ = new HostStream(jitter == 0 ? 0 : jitter + 64 * number + rank.rank,
                           rank.world->failure());
  rank.streams.push_back(handle_);
}

Stream::~Stream() {
  std::vector<HostStream*>& streams = HostRank::Current().streams;
  streams.erase(std::find(streams.begin(), streams.end(), handle_));
  delete handle_;
}

Event::Event(Timing /*timing*/) : handle_(new HostEvent) {}

Event::~Event() {
  delete handle_;
}

void Event::Record(StreamHandle stream) const {
  handle_->Record(*stream);
}

void Event::Await(StreamHandle stream) const {
  handle_->Await(*stream);
}

void Event::Synchronize() const {
  handle_->Synchronize();
  HostRank::Current().world->failure()->ThrowIfHappened();
}

float Event::MillisecondsSince(const Event& earlier) const {
  return std::chrono::duration<float, std::milli>(handle_->last_recording() -
                                                  earlier.handle_->last_recording())
      .count();
}

void* AllocatePinned(size_t bytes) {
  void* data = std::malloc(bytes);
  GPT_CHECK(data != nullptr);
  return data;
}

void FreePinned(void* data) {
  std::free(data);
}

}  // namespace gpt
