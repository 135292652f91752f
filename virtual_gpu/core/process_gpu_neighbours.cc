// VirtualGpu: what libnccl asks of the virtual GPU.

#include <algorithm>
#include <cstring>
#include <utility>

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_gpu_account.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {
namespace {

uint64_t Address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

ContentPiece AsPiece(const ContentRun& run) {
  ContentPiece piece{};
  piece.offset = run.begin;
  piece.bytes = run.end - run.begin;
  switch (run.origin.kind) {
    case Origin::Kind::kBytes:
    case Origin::Kind::kFill:
      piece.state = protocol::PayloadState::kKnown;
      break;
    case Origin::Kind::kUnwritten:
    case Origin::Kind::kComputed:
    case Origin::Kind::kPending:  // other ranks do not get what is not computed yet
      piece.state = protocol::PayloadState::kComputed;
      break;
    case Origin::Kind::kResult:
      piece.state = protocol::PayloadState::kDerived;
      piece.source = run.origin.key;
      piece.source_offset = run.origin.offset;
      break;
  }
  return piece;
}

}  // namespace

bool ProcessGpu::FindStream(void* handle, int device, VirtualGpu::Stream* stream,
                            int* error_out) {
  int ignored = 0;
  int& reason = error_out != nullptr ? *error_out : ignored;
  reason = static_cast<int>(Error::kInvalidDevice);
  if (device >= DeviceCount())
    return false;
  Lock lock(mutex_);
  int& current = ThisThread().device;
  const int before = current;
  if (device >= 0)
    current = device;
  Stream* found = nullptr;
  const Error error = BeginOn(handle, &found);
  if (device >= 0)
    current = before;
  reason = static_cast<int>(error);
  if (error != Error::kSuccess)
    return false;
  *stream = {found->device, found->lane};
  return true;
}

int ProcessGpu::MemoryDevice(const void* address) {
  Lock lock(mutex_);
  if (contents_.Find(Address(address)) != nullptr)
    return contents_.DeviceOf(Address(address));
  return host_memory_.Find(Address(address)) != nullptr ? kHostMemory : kNoMemory;
}

VirtualGpu::OwnToken ProcessGpu::TakeToken() {
  Lock lock(mutex_);
  const gpu::Token token = lanes_.TakeToken();
  return {token.id, token.generation};
}

void ProcessGpu::GiveBackToken(VirtualGpu::OwnToken token) {
  Lock lock(mutex_);
  lanes_.GiveBackToken(gpu::Token{token.id, token.generation});
}

void ProcessGpu::BeginWork(VirtualGpu::Stream stream) {
  if (ActivityTap* const tap = activity_.TapOutsideCalls()) [[unlikely]] {
    tap->Enter(true, kLibraryLaunch, nullptr);
    ThisThread().launches_alone = true;
  }
  mutex_.lock();
  ++ThisThread().calls;
  working_ = lanes_.FindLane(stream.lane);
  if (working_ != nullptr) {
    NoteIssuer(working_);
    lanes_.Before(working_);
  }
}

void ProcessGpu::EndWork(VirtualGpu::Stream stream) {
  if (Stream* on = lanes_.FindLane(stream.lane))
    lanes_.After(on);
  working_ = nullptr;
  --ThisThread().calls;
  mutex_.unlock();
  if (std::exchange(ThisThread().launches_alone, false)) [[unlikely]]
    activity_.Exit(0);
}

void ProcessGpu::DescribeWork(const protocol::Record& record) {
  if (activity_.listening() && working_ != nullptr) [[unlikely]]
    NoteLibraryWork(*working_, record);
}

void ProcessGpu::Join(VirtualGpu::Stream waiting, VirtualGpu::Stream before) {
  Lock lock(mutex_);
  Stream* to = lanes_.FindLane(waiting.lane);
  Stream* from = lanes_.FindLane(before.lane);
  if (to == nullptr || from == nullptr || to == from)
    return;
  if (to->capture != nullptr || from->capture != nullptr) [[unlikely]] {
    graphs_.CaptureJoin(to, from);
    return;
  }
  if (activity_.listening()) [[unlikely]] {
    JoinAsCalls(to, from);
    return;
  }
  lanes_.Before(to);
  lanes_.Join(to, from);
  lanes_.After(to);
}

bool ProcessGpu::IsOfNccl(uint64_t address) {
  Lock lock(mutex_);
  const Allocation* allocation = contents_.Find(address);
  return allocation != nullptr &&
         allocation->owner == protocol::MemoryOwner::kCommunicator;
}

uint64_t ProcessGpu::Reserve(int device, uint64_t bytes, protocol::MemoryOwner owner) {
  if (bytes == 0 || EnsureContext(device) != Error::kSuccess)
    return 0;
  // A library's allocation is a driver call, as on a real GPU. What NCCL takes is told
  // by libnccl itself.
  CallScope call(owner == protocol::MemoryOwner::kCommunicator
                     ? nullptr
                     : activity_.TapOutsideCalls(),
                 true, "cuMemAlloc_v2");
  Lock lock(mutex_);
  Allocation* made = Account(
      device, owner, [&] { return contents_.memory(device).Allocate(bytes, owner); });
  if (made == nullptr) {
    static_cast<void>(call.Leave(Error::kOutOfMemory));
    return 0;
  }
  if (activity_.listening()) [[unlikely]]
    NoteMemory(MemoryOf(*made, device), account_delta_);
  contents_.Begin(made);
  return made->base;
}

void ProcessGpu::GiveBack(int device, uint64_t address) {
  CallScope call(IsOfNccl(address) ? nullptr : activity_.TapOutsideCalls(), true,
                 "cuMemFree_v2");
  Lock lock(mutex_);
  Allocation* gone = contents_.Find(address);
  if (gone != nullptr && contents_.DeviceOf(address) == device)
    Release(gone, device, nullptr);
  else
    static_cast<void>(call.Leave(Error::kInvalidValue));
}

std::vector<ContentPiece> ProcessGpu::Inspect(const void* address, uint64_t bytes) {
  Lock lock(mutex_);
  std::vector<ContentPiece> pieces;
  if (contents_.DeviceOf(Address(address)) >= 0) {
    // Outside of any allocation the program is wrong; nothing known lies there.
    if (!contents_.IsValid(Address(address), bytes))
      return {{protocol::PayloadState::kComputed, 0, bytes, {}, 0}};
    for (const ContentRun& run : contents_.Runs(Address(address), bytes)) {
      ContentPiece piece = AsPiece(run);
      const bool merges = !pieces.empty() && pieces.back().state == piece.state &&
                          piece.state != protocol::PayloadState::kDerived;
      if (merges)
        pieces.back().bytes += piece.bytes;
      else
        pieces.push_back(piece);
    }
    return pieces;
  }
  std::vector<Landing> landings = obligations_.Overlapping(address, bytes);
  std::sort(landings.begin(), landings.end(),
            [](const Landing& a, const Landing& b) { return a.to < b.to; });
  uint64_t at = 0;
  auto known_until = [&](uint64_t end) {
    if (at < end)
      pieces.push_back({protocol::PayloadState::kKnown, at, end - at, {}, 0});
  };
  for (const Landing& landing : landings) {
    const uint64_t begin = Address(landing.to) - Address(address);
    if (begin < at)
      continue;  // promised twice: the first promise stands
    known_until(begin);
    pieces.push_back({landing.pending == nullptr ? protocol::PayloadState::kDerived
                                                 : protocol::PayloadState::kComputed,
                      begin, landing.bytes, landing.key, landing.offset});
    at = begin + landing.bytes;
  }
  known_until(bytes);
  return pieces;
}

void ProcessGpu::Read(const void* address, uint64_t bytes, void* out) {
  Lock lock(mutex_);
  if (contents_.DeviceOf(Address(address)) < 0) {
    std::memcpy(out, address, bytes);
    return;
  }
  std::vector<Landing> not_known;
  if (contents_.IsValid(Address(address), bytes))
    contents_.Deliver(Address(address), bytes, static_cast<unsigned char*>(out),
                      &not_known);
}

void ProcessGpu::SetResult(void* address, uint64_t bytes, protocol::PayloadKey key,
                           uint64_t offset) {
  Lock lock(mutex_);
  if (contents_.DeviceOf(Address(address)) >= 0) {
    if (contents_.IsValid(Address(address), bytes))
      contents_.Write(Address(address), bytes, Origin::Result(key, offset));
    return;
  }
  const uint64_t id = obligations_.AddLanding(
      {key, offset, bytes, static_cast<unsigned char*>(address)});
  if (working_ != nullptr)
    Merge(&working_->covers, {id});
}

void ProcessGpu::CopyContent(void* to, const void* from, uint64_t bytes) {
  Lock lock(mutex_);
  const CopyRequest request{.to = to, .from = from, .row_bytes = bytes};
  Sides sides{};
  std::vector<Landing> landings;
  if (bytes == 0 || FindSides(request, &sides) != Error::kSuccess)
    return;
  Move(request, sides, &landings);
  for (const Landing& landing : landings) {
    const uint64_t id = obligations_.AddLanding(landing);
    if (working_ != nullptr)
      Merge(&working_->covers, {id});
  }
}

void ProcessGpu::SetKnown(void* address, const void* content, uint64_t bytes) {
  Lock lock(mutex_);
  if (contents_.DeviceOf(Address(address)) < 0)
    std::memcpy(address, content, bytes);
  else if (contents_.IsValid(Address(address), bytes) &&
           !contents_.StoreBytes(Address(address), content, bytes))
    contents_.Write(Address(address), bytes, Origin::Computed("nccl"));
}

void ProcessGpu::SetComputed(void* address, uint64_t bytes) {
  Lock lock(mutex_);
  static constexpr const char* kWriter = "nccl";
  if (contents_.DeviceOf(Address(address)) < 0)
    contents_.WriteComputed(kWriter, static_cast<unsigned char*>(address), bytes);
  else if (contents_.IsValid(Address(address), bytes))
    contents_.Write(Address(address), bytes, Origin::Computed(kWriter));
}

}  // namespace vrank::gpu
