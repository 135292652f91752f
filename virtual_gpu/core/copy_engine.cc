#include "virtual_gpu/core/copy_engine.h"

#include <cstring>

namespace vrank::gpu {
namespace {

// Copies from pageable memory to the device up to this size are staged within the call
// and the host does not wait for them (CUDA C++ Programming Guide, "Concurrent
// execution between host and device": "memory copies from host to device of a memory
// block of 64 KB or less").
constexpr uint64_t kStagedBytes = 64 << 10;

uint64_t Address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

// The distance between the first and the byte after the last of a block.
uint64_t Extent(uint64_t row_bytes, uint64_t rows, uint64_t depth, uint64_t pitch,
                uint64_t plane) {
  return (depth - 1) * plane + (rows - 1) * pitch + row_bytes;
}

}  // namespace

// One row where the block has no gaps; what a plain copy asks for anyway.
CopyRequest CopyEngine::Flattened(CopyRequest request) {
  if (request.rows > 1 && request.to_pitch == request.row_bytes &&
      request.from_pitch == request.row_bytes) {
    const uint64_t plane = request.row_bytes * request.rows;
    if (request.depth == 1 ||
        (request.to_plane == plane && request.from_plane == plane)) {
      request.row_bytes = plane * request.depth;
      request.rows = request.depth = 1;
    }
  }
  return request;
}

Error CopyEngine::FindSides(const CopyRequest& request, CopySides* sides) {
  const uint64_t to = Address(request.to);
  const uint64_t from = Address(request.from);
  const int to_device = contents_.DeviceOf(to);
  const int from_device = contents_.DeviceOf(from);
  if ((to_device >= 0 &&
       !contents_.IsValid(to, Extent(request.row_bytes, request.rows, request.depth,
                                     request.to_pitch, request.to_plane))) ||
      (from_device >= 0 &&
       !contents_.IsValid(from, Extent(request.row_bytes, request.rows, request.depth,
                                       request.from_pitch, request.from_plane))))
    return Error::kInvalidValue;
  const bool to_locked = host_memory_.Find(to) != nullptr;
  const bool from_locked = host_memory_.Find(from) != nullptr;
  // What the caller says must fit what the pointers are; page-locked memory is both
  // host memory and reachable by the device.
  const auto said = static_cast<int>(request.direction);
  if (request.direction != CopyDirection::kFromPointers) {
    const bool says_to_device = (said & 1) != 0;
    const bool says_from_device = (said & 2) != 0;
    if ((says_to_device && to_device < 0 && !to_locked) ||
        (!says_to_device && to_device >= 0) ||
        (says_from_device && from_device < 0 && !from_locked) ||
        (!says_from_device && from_device >= 0))
      return Error::kInvalidValue;
  }
  if (to_device >= 0 && from_device >= 0)
    // A played rank's memory (shared_handles.h) may be shown on this device.
    *sides = {to_device == from_device &&
                      contents_.Find(to)->shared == contents_.Find(from)->shared
                  ? protocol::CopyKind::kDeviceToDevice
                  : protocol::CopyKind::kPeer,
              false};
  else if (to_device >= 0)
    *sides = {protocol::CopyKind::kHostToDevice, from_locked};
  else if (from_device >= 0)
    *sides = {protocol::CopyKind::kDeviceToHost, to_locked};
  else
    *sides = {protocol::CopyKind::kHostToHost, to_locked && from_locked};
  return Error::kSuccess;
}

// CUDA runtime API, "API synchronization behavior".
bool CopyEngine::HostMustWait(const CopyRequest& request, const CopySides& sides) {
  switch (sides.kind) {
    case protocol::CopyKind::kDeviceToDevice:
    case protocol::CopyKind::kPeer:
      return false;
    case protocol::CopyKind::kHostToHost:
      return true;
    case protocol::CopyKind::kDeviceToHost:
      return !request.asynchronous || !sides.pinned;
    case protocol::CopyKind::kHostToDevice:
      return sides.pinned
                 ? !request.asynchronous
                 : request.row_bytes * request.rows * request.depth > kStagedBytes;
  }
  return true;
}

bool CopyEngine::StoreFromHost(uint64_t to, const void* from, uint64_t bytes) {
  if (!contents_.StoreBytes(to, from, bytes))
    return false;
  if (obligations_.empty())
    return true;
  // Parts of the source may be results that are still on their way.
  for (const Landing& landing : obligations_.Overlapping(from, bytes)) {
    const auto skipped =
        static_cast<uint64_t>(landing.to - static_cast<const unsigned char*>(from));
    contents_.Write(to + skipped, landing.bytes,
                    landing.pending == nullptr
                        ? Origin::Result(landing.key, landing.offset)
                        : Origin::Pending(landing.pending, landing.offset));
  }
  return true;
}

bool CopyEngine::MoveRow(const CopySides& sides, uint64_t to, uint64_t from,
                         uint64_t bytes, std::vector<Landing>* landings) {
  switch (sides.kind) {
    case protocol::CopyKind::kHostToDevice:
      return StoreFromHost(to, reinterpret_cast<const void*>(from), bytes);
    case protocol::CopyKind::kDeviceToHost:
      contents_.Deliver(from, bytes, reinterpret_cast<unsigned char*>(to), landings);
      return true;
    case protocol::CopyKind::kDeviceToDevice:
    case protocol::CopyKind::kPeer:
      return contents_.CopyWithin(to, from, bytes);
    case protocol::CopyKind::kHostToHost:
      std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from),
                   bytes);
      return true;
  }
  return false;
}

bool CopyEngine::Move(const CopyRequest& request, const CopySides& sides,
                      std::vector<Landing>* landings) {
  for (uint64_t plane = 0; plane < request.depth; ++plane)
    for (uint64_t row = 0; row < request.rows; ++row) {
      const uint64_t to =
          Address(request.to) + plane * request.to_plane + row * request.to_pitch;
      const uint64_t from =
          Address(request.from) + plane * request.from_plane + row * request.from_pitch;
      if (!MoveRow(sides, to, from, request.row_bytes, landings))
        return false;
    }
  return true;
}

void CopyEngine::EmitCopy(const Stream& stream, const CopyRequest& request,
                          const CopySides& sides, uint16_t flags) {
  protocol::Copy record{};
  record.record.kind = protocol::RecordKind::kCopy;
  record.record.flags = flags;
  record.lane = stream.lane;
  record.copy_kind = sides.kind;
  record.bytes = request.row_bytes * request.rows * request.depth;
  record.pinned = sides.pinned ? 1 : 0;
  channel_->Emit(record);
  if (notes_.listening()) [[unlikely]]
    notes_.Copy(stream, record);
}

Error CopyEngine::CheckFill(const FillRequest& request) {
  const uint64_t to = Address(request.to);
  const uint64_t extent = Extent(request.elements * request.element_bytes, request.rows,
                                 request.depth, request.pitch, request.plane);
  const HostBlock* locked = host_memory_.Find(to);
  const bool valid =
      contents_.DeviceOf(to) >= 0
          ? contents_.IsValid(to, extent)
          : locked != nullptr && extent <= locked->bytes - (to - locked->base);
  if (!valid || to % request.element_bytes != 0 ||
      (request.rows > 1 && request.pitch % request.element_bytes != 0))
    return Error::kInvalidValue;
  return Error::kSuccess;
}

void CopyEngine::EmitFill(const Stream& stream, const FillRequest& request,
                          uint16_t flags) {
  protocol::Memset record{};
  record.record.kind = protocol::RecordKind::kMemset;
  record.record.flags = flags;
  record.lane = stream.lane;
  record.bytes =
      request.elements * request.element_bytes * request.rows * request.depth;
  channel_->Emit(record);
  if (notes_.listening()) [[unlikely]] {
    ActivityWork work;
    work.kind = ActivityWorkKind::kMemset;
    work.bytes = record.bytes;
    work.value = request.value;
    notes_.Work(stream, work);
  }
}

void CopyEngine::Fill(const FillRequest& request) {
  const bool on_device = contents_.DeviceOf(Address(request.to)) >= 0;
  const uint64_t row_bytes = request.elements * request.element_bytes;
  const uint32_t pattern =
      request.element_bytes == 1   ? (request.value & 0xff) * 0x01010101u
      : request.element_bytes == 2 ? (request.value & 0xffff) * 0x00010001u
                                   : request.value;
  for (uint64_t plane = 0; plane < request.depth; ++plane)
    for (uint64_t row = 0; row < request.rows; ++row) {
      const uint64_t at =
          Address(request.to) + plane * request.plane + row * request.pitch;
      if (on_device)
        contents_.Write(at, row_bytes, Origin::Fill(pattern));
      else
        FillBytes(pattern, at, reinterpret_cast<unsigned char*>(at), row_bytes);
    }
}

}  // namespace vrank::gpu
