// VirtualGpu: what libnccl asks of the virtual GPU.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "base/guest/raw_log.h"
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

// A part of a range that a kernel goes through: of one allocation, or the room between
// two, which has memory but is nobody's.
struct Part {
  uint64_t offset = 0;  // from the start of the range
  uint64_t bytes = 0;
  bool allocated = false;
};

// Where the room after `address` ends, which is in no allocation; nothing where its
// block has no memory.
std::optional<uint64_t> EndOfRoom(DeviceMemory& memory, uint64_t address) {
  const uint64_t block = address / DeviceMemory::kBlock * DeviceMemory::kBlock;
  const uint64_t block_end = block + DeviceMemory::kBlock;
  const auto next = memory.allocations().upper_bound(address);
  if (next != memory.allocations().end() && next->first < block_end)
    return next->first;
  if (next == memory.allocations().begin())
    return std::nullopt;
  const Allocation& before = std::prev(next)->second;
  if (before.reserved || before.base + before.bytes <= block)
    return std::nullopt;
  return block_end;
}

// The range as a kernel finds it, which knows pages and not allocations: memory is
// mapped in blocks. Nothing where it would get to an address without memory.
std::optional<std::vector<Part>> PartsOf(Contents& contents, uint64_t address,
                                         uint64_t bytes) {
  if (contents.IsValid(address, bytes))
    return std::vector<Part>{{0, bytes, true}};
  std::vector<Part> parts;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t at = address + done;
    if (contents.DeviceOf(at) != contents.DeviceOf(address))
      return std::nullopt;
    const Allocation* const allocation = contents.Find(at);
    uint64_t end = 0;
    if (allocation == nullptr) {
      const std::optional<uint64_t> room =
          EndOfRoom(contents.memory(contents.DeviceOf(at)), at);
      if (!room.has_value())
        return std::nullopt;
      end = *room;
    } else {
      end = allocation->base + allocation->bytes;
      if (allocation->reserved)  // memory lies behind some of its blocks
        end = std::min(end, (at / DeviceMemory::kBlock + 1) * DeviceMemory::kBlock);
    }
    parts.push_back({done, std::min(bytes - done, end - at), allocation != nullptr});
    done += parts.back().bytes;
  }
  return parts;
}

// The same; where it gets to no memory, none, and the GPU is lost.
std::vector<Part> PartsOrFault(ProcessGpu* gpu, Contents& contents, uint64_t address,
                               uint64_t bytes) {
  std::optional<std::vector<Part>> parts = PartsOf(contents, address, bytes);
  if (parts.has_value())
    return std::move(*parts);
  gpu->Fault();
  static std::atomic<bool> said = false;
  if (said.exchange(true))
    return {};
  const Allocation* const allocation = contents.Find(address);
  const uint64_t own =
      allocation == nullptr ? 0 : allocation->base + allocation->bytes - address;
  RawLog("CUDA",
         "an NCCL operation uses %llu bytes at 0x%llx of device %d, whose allocation "
         "ends after %llu of them, and so gets to addresses without memory: "
         "cudaErrorIllegalAddress from now on. Is its count in elements, not bytes?",
         static_cast<unsigned long long>(bytes),
         static_cast<unsigned long long>(address), contents.DeviceOf(address),
         static_cast<unsigned long long>(own));
  return {};
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

void ProcessGpu::SetBlock(const void* address, int64_t bytes) {
  Lock lock(mutex_);
  contents_.SetBlock(reinterpret_cast<uint64_t>(address), bytes);
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
  LookAtOthers(device, bytes, &lock);
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
    const auto add = [&](const ContentPiece& piece) {
      const bool merges = !pieces.empty() && pieces.back().state == piece.state &&
                          piece.state != protocol::PayloadState::kDerived;
      if (merges)
        pieces.back().bytes += piece.bytes;
      else
        pieces.push_back(piece);
    };
    for (const Part& part : PartsOrFault(this, contents_, Address(address), bytes)) {
      if (!part.allocated) {
        add({protocol::PayloadState::kComputed, part.offset, part.bytes, {}, 0});
        continue;
      }
      for (const ContentRun& run :
           contents_.Runs(Address(address) + part.offset, part.bytes)) {
        ContentPiece piece = AsPiece(run);
        piece.offset += part.offset;
        add(piece);
      }
    }
    if (pieces.empty())
      pieces.push_back({protocol::PayloadState::kComputed, 0, bytes, {}, 0});
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
  for (const Part& part : PartsOrFault(this, contents_, Address(address), bytes))
    if (part.allocated)
      contents_.Deliver(Address(address) + part.offset, part.bytes,
                        static_cast<unsigned char*>(out) + part.offset, &not_known);
}

void ProcessGpu::SetResult(void* address, uint64_t bytes, protocol::PayloadKey key,
                           uint64_t offset) {
  Lock lock(mutex_);
  if (contents_.DeviceOf(Address(address)) >= 0) {
    for (const Part& part : PartsOrFault(this, contents_, Address(address), bytes))
      if (part.allocated)
        contents_.Write(Address(address) + part.offset, part.bytes,
                        Origin::Result(key, offset + part.offset));
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
  if (bytes == 0)
    return;
  if (FindSides(request, &sides) != Error::kSuccess) {
    // Beyond the end of an allocation; what comes of it is not known.
    if (contents_.DeviceOf(Address(from)) >= 0)
      PartsOrFault(this, contents_, Address(from), bytes);
    SetComputed(to, bytes);
    return;
  }
  Move(request, sides, &landings);
  for (const Landing& landing : landings) {
    const uint64_t id = obligations_.AddLanding(landing);
    if (working_ != nullptr)
      Merge(&working_->covers, {id});
  }
}

void ProcessGpu::SetComputed(void* address, uint64_t bytes) {
  Lock lock(mutex_);
  static constexpr const char* kWriter = "nccl";
  if (contents_.DeviceOf(Address(address)) < 0) {
    contents_.WriteComputed(Origin::Computed(kWriter),
                            static_cast<unsigned char*>(address), bytes);
    return;
  }
  for (const Part& part : PartsOrFault(this, contents_, Address(address), bytes))
    if (part.allocated)
      contents_.Write(Address(address) + part.offset, part.bytes,
                      Origin::Computed(kWriter));
}

}  // namespace vrank::gpu
