#include "gpu_hold/held_gpu.h"

#include <algorithm>
#include <cstdlib>

#include "gpu_hold/hold_driver.h"
#include "gpu_hold/hold_shape.h"

namespace vrank::hold {
namespace {

HoldLaunch LaunchOf(const HeldOperation& operation, uint32_t ranks,
                    const HeldGpuOptions& options) {
  HoldLaunch launch;
  ShapeInput input;
  input.ranks = ranks;
  input.channels = options.channels;
  input.compute_major = options.compute_major;
  if (operation.each.empty()) {
    launch.operation = OperationOf(operation.collective.operation);
    input.bytes = MovedBytes(operation.collective, ranks);
  } else {
    launch.operation = HoldOperation::kSendReceive;
    for (const protocol::Transfer& transfer : operation.each)
      input.bytes += transfer.bytes;
  }
  launch.shape = ShapeOf(input);
  return launch;
}

}  // namespace

thread_local VirtualGpu::Stream HeldGpu::working_;

HeldGpu::HeldGpu(Channel* channel, GpuStreams* streams, HeldGpuOptions options)
    : channel_(channel), streams_(streams), options_(std::move(options)) {
  courier_ = std::make_unique<HoldCourier>(channel_, options_.time_origin_ns);
}

HeldGpu::~HeldGpu() {
  for (auto& [device, its] : devices_)
    its.service.reset();  // no arrival is told any more
}

// --- Streams -------------------------------------------------------------------------

bool HeldGpu::FindStream(void* handle, int device, Stream* stream, int* error) {
  const std::lock_guard lock(mutex_);
  int of = device;
  if (handle != nullptr || device < 0) {
    of = streams_->DeviceOf(handle);
    if (of < 0) {
      if (error != nullptr)
        *error = 400;  // cudaErrorInvalidResourceHandle
      return false;
    }
  }
  uint32_t& lane = lane_of_[{of, handle}];
  if (lane == 0) {
    lanes_.emplace_back(of, handle);
    lane = static_cast<uint32_t>(lanes_.size());
  }
  *stream = {of, lane};
  return true;
}

void HeldGpu::BeginWork(Stream stream) {
  working_ = stream;
}

void HeldGpu::EndWork(Stream) {}

void* HeldGpu::HandleOf(uint32_t lane) {
  const std::lock_guard lock(mutex_);
  return lanes_[lane - 1].second;
}

void HeldGpu::Join(Stream waiting, Stream before) {
  if (!streams_->Enter(waiting.device))
    return Fail("the context of device " + std::to_string(waiting.device) + " is gone");
  if (!streams_->Join(HandleOf(waiting.lane), HandleOf(before.lane)))
    Fail("an event between two streams of a communicator could not be made");
  streams_->Leave();
}

uint64_t HeldGpu::CaptureOf(Stream stream) {
  return streams_->CaptureOf(HandleOf(stream.lane));
}

void HeldGpu::CopyContent(void* to, const void* from, uint64_t bytes) {
  if (!streams_->Enter(working_.device))
    return Fail("the context of device " + std::to_string(working_.device) +
                " is gone");
  if (!streams_->Copy(to, from, bytes, HandleOf(working_.lane)))
    Fail("a copy of " + std::to_string(bytes) + " bytes on the device was refused");
  streams_->Leave();
}

// --- Tokens and memory ---------------------------------------------------------------

VirtualGpu::OwnToken HeldGpu::TakeToken() {
  const std::lock_guard lock(mutex_);
  if (free_tokens_.empty())
    return {++tokens_, 0};
  const uint32_t id = free_tokens_.back();
  free_tokens_.pop_back();
  return {id, 0};
}

void HeldGpu::GiveBackToken(OwnToken token) {
  const std::lock_guard lock(mutex_);
  free_tokens_.push_back(token.id);
}

uint64_t HeldGpu::Reserve(int device, uint64_t bytes, protocol::MemoryOwner) {
  if (!streams_->Enter(device))
    return 0;
  const uint64_t address = streams_->Allocate(bytes);
  streams_->Leave();
  return address;
}

void HeldGpu::GiveBack(int device, uint64_t address) {
  if (!streams_->Enter(device))
    return;
  streams_->Free(address);
  streams_->Leave();
}

// --- Holds ---------------------------------------------------------------------------

void HeldGpu::Fail(const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty())
    failure_ = what;
}

std::string HeldGpu::HoldFailure() {
  const std::lock_guard lock(mutex_);
  for (const auto& [device, its] : devices_)
    if (failure_.empty() && its.service != nullptr)
      failure_ = its.service->Health();
  return failure_;
}

HoldService* HeldGpu::FindService(int device) {
  const std::lock_guard lock(mutex_);
  Device& found = devices_[device];
  if (found.service != nullptr)
    return found.service.get();
  std::string error;
  found.driver = options_.make_driver(&error);
  if (found.driver == nullptr) {
    Fail("streams of device " + std::to_string(device) + " cannot be held: " + error);
    return nullptr;
  }
  HoldService::Options options;
  options.patience = options_.patience;
  options.on_arrival = [this](HoldRing* ring, const HoldArrival& arrival) {
    courier_->Arrived(ring, arrival);
  };
  options.emulator_lives = [this] { return !channel_->aborting(); };
  found.service = std::make_unique<HoldService>(found.driver.get(), options);
  return found.service.get();
}

bool HeldGpu::OpenHolds(uint32_t communicator, int device, uint32_t ranks) {
  courier_->AwaitHostClock();  // the creation has taken its time
  if (!streams_->Enter(device)) {
    Fail("device " + std::to_string(device) + " has no context");
    return false;
  }
  auto holds = std::make_shared<Holds>(streams_);
  holds->service = FindService(device);
  if (holds->service != nullptr && holds->order.Begin())
    holds->ring = holds->service->Open();
  if (holds->ring == nullptr)
    holds->order.End();
  streams_->Leave();
  if (holds->ring == nullptr) {
    Fail("no event, or no host memory that device " + std::to_string(device) +
         " can map");
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (free_hold_tokens_.empty()) {
    holds->token = {++tokens_, 0};
  } else {
    holds->token = free_hold_tokens_.back();
    free_hold_tokens_.pop_back();
  }
  holds->ranks = ranks;
  holds->device = device;
  courier_->Add(holds->ring, holds->service, holds->token.id, holds->token.generation);
  communicators_[communicator] = std::move(holds);
  return true;
}

std::shared_ptr<HeldGpu::Holds> HeldGpu::FindHolds(uint32_t communicator) {
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(communicator);
  return found == communicators_.end() ? nullptr : found->second;
}

// Until graphs that have been launched are over: nobody knows of their holds before
// they begin.
void HeldGpu::AwaitGraphs(Holds* holds) {
  {
    const std::lock_guard lock(holds->mutex);
    if (!holds->order.was_captured())
      return;
  }
  if (streams_->Enter(holds->device)) {
    streams_->AwaitDevice();
    streams_->Leave();
  }
}

void HeldGpu::EndHolds(uint32_t communicator, protocol::ReleaseKind kind) {
  const std::shared_ptr<Holds> holds = FindHolds(communicator);
  if (holds == nullptr)
    return;
  if (kind != protocol::ReleaseKind::kAbort) {
    AwaitGraphs(holds.get());
    courier_->AwaitIdle(holds->ring, [&] {
      return channel_->aborting() || !holds->service->Health().empty();
    });
  }
  if (kind == protocol::ReleaseKind::kFinalize || kind == protocol::ReleaseKind::kStop)
    return;
  {
    const std::lock_guard lock(mutex_);
    if (communicators_.erase(communicator) == 0)
      return;  // another thread ends them
  }
  // In this order: nothing that ends from here on is told, a launch that waits for the
  // device comes to its end, and then nobody uses the ring or the events any more.
  const uint32_t generation = courier_->Remove(holds->ring);
  holds->service->Abort(holds->ring);
  {
    const std::lock_guard lock(holds->mutex);
    holds->ended = true;
    holds->service->Close(holds->ring);
    if (streams_->Enter(holds->device)) {
      holds->order.End();
      streams_->Leave();
    }
  }
  // An operation that was aborted stays on its lane: the others may never come.
  const std::lock_guard lock(mutex_);
  if (kind != protocol::ReleaseKind::kAbort)
    free_hold_tokens_.push_back({holds->token.id, generation});
}

void HeldGpu::AbortHolds() {
  if (channel_->detached())
    return;  // a child after fork: the holds are its parent's
  // A thread that has the lock may never give it back: the process ends.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock())
    return;
  for (auto& [device, its] : devices_)
    if (its.service != nullptr)
      its.service->AbortAll();
}

bool HeldGpu::HoldStream(Stream stream, const protocol::Record& record,
                         const void* tail, size_t tail_bytes,
                         const HeldResult& result) {
  HeldOperation operation;
  uint32_t communicator = 0;
  if (record.kind == protocol::RecordKind::kCollective) {
    operation.collective = reinterpret_cast<const protocol::Collective&>(record);
    communicator = operation.collective.communicator;
  } else if (record.kind == protocol::RecordKind::kPointToPoint) {
    operation.transfers = reinterpret_cast<const protocol::PointToPoint&>(record);
    const auto* each = static_cast<const protocol::Transfer*>(tail);
    operation.each.assign(each, each + tail_bytes / sizeof(protocol::Transfer));
    communicator = operation.transfers.communicator;
  } else if (result.multiplied) {
    Fail(
        "a pre-multiplied sum over a communicator of one rank is not computed on a "
        "real "
        "GPU");
    return true;
  } else {
    return true;  // a copy: CopyContent makes it
  }
  const std::shared_ptr<Holds> holds = FindHolds(communicator);
  if (holds == nullptr)
    return true;  // another thread has aborted the communicator
  const std::lock_guard lock(holds->mutex);
  if (holds->ended)
    return true;
  HoldLaunch launch = LaunchOf(operation, holds->ranks, options_);
  launch.stream = HandleOf(stream.lane);
  launch.parameters.result = result;
  std::string error = "the device's context is gone";
  bool held = false;
  if (streams_->Enter(stream.device)) {
    const uint64_t capture = streams_->CaptureOf(launch.stream);
    if (capture == 0)
      courier_->Expect(holds->ring, std::move(operation));
    else
      launch.parameters.work = courier_->Keep(holds->ring, std::move(operation));
    error = "its place in the communicator's order was refused";
    held = holds->order.Follow(capture, launch.stream) &&
           holds->service->Begin(holds->ring, launch, &error);
    if (!held && capture == 0)
      courier_->Withdraw(holds->ring);
    if (held && !holds->order.Precede(capture, launch.stream))
      Fail("the order of a communicator's operations could not be kept on the device");
    streams_->Leave();
  }
  // Where it has been aborted meanwhile, nothing is wrong with the others.
  if (!held && FindHolds(communicator) != nullptr)
    Fail("a collective could not hold its stream: " + error);
  return true;
}

VirtualGpu* MakeHeldGpu(Channel* channel, int64_t time_origin_ns, std::string* error) {
  // Never destroyed, as the library: static destructors of the program call it.
  static GpuStreams* const streams = MakeGpuStreams(error).release();
  if (streams == nullptr)
    return nullptr;
  if (!channel->ClaimRank()) {
    *error =
        "another process of this rank uses its GPUs already; one process per rank can: "
        "start the program once per rank";
    return nullptr;
  }
  HeldGpuOptions options;
  options.compute_major = channel->settings().gpu.compute_major;
  options.time_origin_ns = time_origin_ns;
  options.make_driver = MakeGpuHoldDriver;
  static HeldGpu* const gpu = new HeldGpu(channel, streams, options);
  // No stream is held when the process ends.
  std::atexit([] { gpu->AbortHolds(); });
  return gpu;
}

}  // namespace vrank::hold
