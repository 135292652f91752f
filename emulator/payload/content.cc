#include "emulator/payload/content.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/guest/element_bytes.h"
#include "base/guest/multiply.h"

namespace vrank::emulator {

using protocol::PayloadState;

namespace {

// A piece of known bytes grows to about this size, so that large contributions are not
// copied again and again while they arrive.
constexpr size_t kBlockBytes = size_t{1} << 20;
// Blocks end where elements of every type end.
constexpr uint64_t kBlockAlignment = 8;

}  // namespace

absl::Status Content::Claim(uint64_t offset, uint64_t bytes) {
  if (offset < end_ || bytes > std::numeric_limits<uint64_t>::max() - offset)
    return absl::InvalidArgumentError(
        fmt::format("payload: piece of {} bytes at {} follows a piece that ends at {}",
                    bytes, offset, end_));
  end_ = offset + bytes;
  return absl::OkStatus();
}

absl::Status Content::AddKnown(uint64_t offset, std::span<const std::byte> bytes,
                               bool mirrored) {
  if (absl::Status status = Claim(offset, bytes.size()); !status.ok())
    return status;
  if (bytes.empty())
    return absl::OkStatus();
  known_bytes_ += bytes.size();
  Piece* last = pieces_.empty() ? nullptr : &pieces_.back();
  const bool block_ends =
      last != nullptr && last->bytes >= kBlockBytes && offset % kBlockAlignment == 0;
  if (last != nullptr && !block_ends && last->state == PayloadState::kKnown &&
      last->offset + last->bytes == offset && last->mirrored == mirrored) {
    last->data.insert(last->data.end(), bytes.begin(), bytes.end());
    last->bytes += bytes.size();
    return absl::OkStatus();
  }
  pieces_.push_back(Piece{offset, bytes.size(), PayloadState::kKnown, mirrored,
                          std::vector<std::byte>(bytes.begin(), bytes.end()),
                          Source{}});
  return absl::OkStatus();
}

absl::Status Content::AddComputed(uint64_t offset, uint64_t bytes) {
  return Claim(offset, bytes);
}

absl::Status Content::AddDerived(uint64_t offset, uint64_t bytes, const Source& source,
                                 const protocol::PayloadFactor& factor) {
  if (absl::Status status = Claim(offset, bytes); !status.ok())
    return status;
  if (bytes == 0)
    return absl::OkStatus();
  pieces_.push_back(
      Piece{offset, bytes, PayloadState::kDerived, false, {}, source, factor});
  ++derived_;
  return absl::OkStatus();
}

absl::Status Content::AddUnmultiplied(uint64_t offset, std::span<const std::byte> bytes,
                                      const protocol::PayloadFactor& factor) {
  const size_t before = pieces_.size();
  if (absl::Status status = AddDerived(offset, bytes.size(), Source{}, factor);
      !status.ok() || pieces_.size() == before)
    return status;
  pieces_.back().data.assign(bytes.begin(), bytes.end());
  known_bytes_ += bytes.size();
  return absl::OkStatus();
}

Content Content::Multiplied(protocol::ElementType type, const void* value,
                            bool mirrored) const {
  const uint64_t element = protocol::ElementBytes(type);
  Content product;
  std::vector<std::byte> values;
  for (uint64_t at = 0; at < end_;) {
    const Stretch stretch = At(at, end_ - at);
    const bool known = stretch.state == PayloadState::kKnown;
    uint64_t bytes = stretch.bytes / element * element;
    // Stretches follow each other: no call can fail.
    if (known && bytes > 0) {
      values.assign(stretch.data, stretch.data + bytes);
      Multiply(type, value, reinterpret_cast<unsigned char*>(values.data()), bytes);
      (void)product.AddKnown(at, values, mirrored || stretch.mirrored);
    } else {
      bytes = std::min(end_ - at, (stretch.bytes + element - 1) / element * element);
      (void)product.AddComputed(at, bytes);
    }
    at += bytes;
  }
  return product;
}

Content::Stretch Content::At(uint64_t offset, uint64_t limit) const {
  // The first piece that ends behind `offset`.
  const auto piece = std::partition_point(
      pieces_.begin(), pieces_.end(),
      [offset](const Piece& p) { return p.offset + p.bytes <= offset; });
  if (piece == pieces_.end())
    return Stretch{PayloadState::kComputed, limit};
  if (piece->offset > offset)
    return Stretch{PayloadState::kComputed, std::min(limit, piece->offset - offset)};
  const uint64_t inside = offset - piece->offset;
  const uint64_t bytes = std::min(limit, piece->bytes - inside);
  if (piece->state != PayloadState::kKnown)
    return Stretch{piece->state, bytes};
  return Stretch{PayloadState::kKnown, bytes, piece->data.data() + inside,
                 piece->mirrored};
}

void Content::TakeOver(const Piece& derived, const Content& resolved) {
  known_bytes_ -= derived.data.size();
  for (const Piece& piece : resolved.pieces_) {
    pieces_.push_back(piece);
    pieces_.back().offset += derived.offset;
    known_bytes_ += piece.bytes;
  }
}

}  // namespace vrank::emulator
