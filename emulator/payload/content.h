// What is known of one member's contribution to a collective or a transfer.
//
// Without a GPU most device memory holds what a kernel "would have computed": no bytes
// exist, so none are stored. A contribution is a row of stretches that are known,
// computed, or derived (equal to a part of an earlier result of the same member that
// was not complete when the contribution was made). Elements of a derived stretch may
// be multiplied by a factor, which may be derived itself; then so are bytes that were
// known. Only known stretches take memory.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_PAYLOAD_CONTENT_H_
#define VRANK_EMULATOR_PAYLOAD_CONTENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/status.h>

#include "base/guest/protocol.h"

namespace vrank::emulator {

class Content {
 public:
  // A part of an earlier result of the same member.
  struct Source {
    protocol::PayloadKey key;
    uint64_t offset = 0;
  };

  // Where a piece comes from that waits for an earlier result.
  struct Origin {
    const Source* source = nullptr;  // nullptr: `data`, which waits for its factor
    std::span<const std::byte> data;
    protocol::PayloadFactor factor;  // of its elements
  };

  // A run of bytes with one origin.
  struct Stretch {
    protocol::PayloadState state = protocol::PayloadState::kComputed;
    uint64_t bytes = 0;
    const std::byte* data = nullptr;  // kKnown
    bool mirrored = false;            // kKnown: a virtual peer's value was made up
  };

  // Pieces come in ascending order and do not overlap; what no piece covers is
  // computed. An error says that the guest broke this rule.
  absl::Status AddKnown(uint64_t offset, std::span<const std::byte> bytes,
                        bool mirrored);
  absl::Status AddComputed(uint64_t offset, uint64_t bytes);
  absl::Status AddDerived(uint64_t offset, uint64_t bytes, const Source& source,
                          const protocol::PayloadFactor& factor = {});
  // Bytes whose factor is derived.
  absl::Status AddUnmultiplied(uint64_t offset, std::span<const std::byte> bytes,
                               const protocol::PayloadFactor& factor);

  // The longest stretch with one origin that starts at `offset`, at most `limit` bytes.
  // REQUIRES: limit > 0.
  Stretch At(uint64_t offset, uint64_t limit) const;

  // This with every element multiplied by *value. An element that is not known as a
  // whole is computed. `mirrored`: the value was made up.
  Content Multiplied(protocol::ElementType type, const void* value,
                     bool mirrored) const;

  // Calls resolve(origin, bytes, &resolved) for each derived piece. `resolved` takes
  // what the piece turned out to hold, from offset 0. A false return leaves the piece
  // as it is.
  template <typename Resolve>
  void ResolveDerived(Resolve resolve);

  bool has_derived() const { return derived_ != 0; }
  // Known bytes held; nothing known or derived means that every byte is computed.
  uint64_t known_bytes() const { return known_bytes_; }
  // End of the last piece.
  uint64_t end() const { return end_; }

 private:
  struct Piece {
    uint64_t offset;
    uint64_t bytes;
    protocol::PayloadState state;  // kKnown or kDerived
    bool mirrored = false;
    std::vector<std::byte> data;
    Source source;
    protocol::PayloadFactor factor{};
  };

  absl::Status Claim(uint64_t offset, uint64_t bytes);
  void TakeOver(const Piece& derived, const Content& resolved);

  std::vector<Piece> pieces_;
  uint64_t end_ = 0;
  uint64_t known_bytes_ = 0;
  size_t derived_ = 0;
};

template <typename Resolve>
void Content::ResolveDerived(Resolve resolve) {
  if (derived_ == 0)
    return;
  const uint64_t end = end_;
  std::vector<Piece> before = std::move(pieces_);
  pieces_.clear();
  derived_ = 0;
  for (Piece& piece : before) {
    Content resolved;
    const Origin origin{piece.data.empty() ? &piece.source : nullptr, piece.data,
                        piece.factor};
    if (piece.state == protocol::PayloadState::kDerived &&
        resolve(origin, piece.bytes, &resolved)) {
      TakeOver(piece, resolved);
      continue;
    }
    derived_ += piece.state == protocol::PayloadState::kDerived ? 1 : 0;
    pieces_.push_back(std::move(piece));
  }
  end_ = end;
}

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_PAYLOAD_CONTENT_H_
