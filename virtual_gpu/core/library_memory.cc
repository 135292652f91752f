#include "virtual_gpu/core/library_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "base/guest/raw_log.h"
#include "virtual_gpu/core/stream_lanes.h"

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
    case Origin::Kind::kPending:  // other ranks do not get what is not computed
                                  // yet
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

std::vector<PagePart> LibraryMemory::PartsOrFault(uint64_t address, uint64_t bytes) {
  std::optional<std::vector<PagePart>> parts = PartsOf(contents_, address, bytes);
  if (parts.has_value())
    return std::move(*parts);
  devices_.Fault();
  static std::atomic<bool> said = false;
  if (said.exchange(true))
    return {};
  const Allocation* const allocation = contents_.Find(address);
  const uint64_t own =
      allocation == nullptr ? 0 : allocation->base + allocation->bytes - address;
  RawLog("CUDA",
         "an NCCL operation uses %llu bytes at 0x%llx of device %d, whose "
         "allocation "
         "ends after %llu of them, and so gets to addresses without memory: "
         "cudaErrorIllegalAddress from now on. Is its count in elements, not "
         "bytes?",
         static_cast<unsigned long long>(bytes),
         static_cast<unsigned long long>(address), contents_.DeviceOf(address),
         static_cast<unsigned long long>(own));
  return {};
}

void LibraryMemory::AddLanding(const Landing& landing) {
  const uint64_t id = obligations_.AddLanding(landing);
  if (stream_ != nullptr)
    Merge(&stream_->covers, {id});
}

uint64_t LibraryMemory::AddArrival(uint64_t bytes) {
  // As small as launches that are computed (launch_interpreter.h), and what a member
  // that puts nothing in is told: sizes, tokens.
  constexpr uint64_t kMostBytes = 1 << 20, kMostTold = 64 << 10;
  // Streams that nobody waits for do not gather them without end.
  constexpr size_t kMostArrivals = 256;
  if (stream_ == nullptr || contributes_ == Contributes::kUnknown ||
      bytes > (contributes_ == Contributes::kNothing ? kMostTold : kMostBytes))
    return 0;
  if (stream_->covers.size() >= kMostArrivals) {
    obligations_.Prune(&stream_->covers);
    if (stream_->covers.size() >= kMostArrivals)
      return 0;
  }
  const uint64_t id = obligations_.AddArrival();
  Merge(&stream_->covers, {id});
  return id;
}

std::vector<ContentPiece> LibraryMemory::Inspect(const void* address, uint64_t bytes) {
  if (has_result_)
    BeginContribution();
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
    for (const PagePart& part : PartsOrFault(Address(address), bytes)) {
      if (!part.allocated) {
        add({protocol::PayloadState::kComputed, part.offset, part.bytes, {}, 0});
        continue;
      }
      for (const ContentRun& run :
           contents_.Runs(Address(address) + part.offset, part.bytes)) {
        if (run.origin.made_up() && *made_up_by_ == '\0')
          made_up_by_ = run.origin.writer;
        ContentPiece piece = AsPiece(run);
        piece.offset += part.offset;
        add(piece);
      }
    }
    if (pieces.empty())
      pieces.push_back({protocol::PayloadState::kComputed, 0, bytes, {}, 0});
    if (contributes_ == Contributes::kNothing)
      contributes_ = Contributes::kUnknown;
    for (const ContentPiece& piece : pieces)
      if (piece.state != protocol::PayloadState::kComputed)
        contributes_ = Contributes::kSomeKnown;
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

void LibraryMemory::Read(const void* address, uint64_t bytes, void* out) {
  if (contents_.DeviceOf(Address(address)) < 0) {
    std::memcpy(out, address, bytes);
    return;
  }
  std::vector<Landing> not_known;
  for (const PagePart& part : PartsOrFault(Address(address), bytes))
    if (part.allocated)
      contents_.Gather(Address(address) + part.offset, part.bytes,
                       static_cast<unsigned char*>(out) + part.offset, &not_known);
}

void LibraryMemory::SetResult(void* address, uint64_t bytes, protocol::PayloadKey key,
                              uint64_t offset) {
  has_result_ = true;
  if (contents_.DeviceOf(Address(address)) >= 0) {
    const uint64_t arrival = AddArrival(bytes);
    for (const PagePart& part : PartsOrFault(Address(address), bytes))
      if (part.allocated)
        contents_.Write(
            Address(address) + part.offset, part.bytes,
            Origin::Result(key, offset + part.offset, made_up_by_, arrival));
    return;
  }
  AddLanding({key, offset, bytes, static_cast<unsigned char*>(address)});
}

void LibraryMemory::Copy(void* to, const void* from, uint64_t bytes) {
  const CopyRequest request{.to = to, .from = from, .row_bytes = bytes};
  CopySides sides{};
  std::vector<Landing> landings;
  if (bytes == 0)
    return;
  if (copies_.FindSides(request, &sides) != Error::kSuccess) {
    // Beyond the end of an allocation; what comes of it is not known.
    if (contents_.DeviceOf(Address(from)) >= 0)
      PartsOrFault(Address(from), bytes);
    SetComputed(to, bytes);
    return;
  }
  copies_.Move(request, sides, &landings);
  for (const Landing& landing : landings)
    AddLanding(landing);
}

void LibraryMemory::SetComputed(void* address, uint64_t bytes) {
  static constexpr const char* kWriter = "nccl";
  if (contents_.DeviceOf(Address(address)) < 0) {
    contents_.WriteComputed(Origin::Computed(kWriter),
                            static_cast<unsigned char*>(address), bytes);
    return;
  }
  for (const PagePart& part : PartsOrFault(Address(address), bytes))
    if (part.allocated)
      contents_.Write(Address(address) + part.offset, part.bytes,
                      Origin::Computed(kWriter));
}

}  // namespace vrank::gpu
