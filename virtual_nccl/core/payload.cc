// Contributions, piece by piece.

#include "virtual_nccl/core/payload.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "virtual_nccl/core/call.h"
#include "virtual_nccl/core/multiply.h"

namespace vrank::nccl {
namespace {

using protocol::PayloadKey;
using protocol::PayloadState;

bool SameKey(const PayloadKey& a, const PayloadKey& b) {
  return a.communicator == b.communicator && a.sequence == b.sequence &&
         a.peer == b.peer && a.is_transfer == b.is_transfer;
}

bool Continues(const ContentPiece& before, const ContentPiece& after) {
  if (before.state != after.state || before.offset + before.bytes != after.offset)
    return false;
  return before.state != PayloadState::kDerived ||
         (SameKey(before.source, after.source) &&
          before.source_offset + before.bytes == after.source_offset);
}

protocol::Payload NewRecord(PayloadKey key, const ContentPiece& piece, bool last) {
  protocol::Payload record{};
  record.record.kind = protocol::RecordKind::kPayload;
  record.key = key;
  record.state = piece.state;
  record.last = last;
  record.offset = piece.offset;
  record.bytes = piece.bytes;
  if (piece.state == PayloadState::kDerived) {
    record.source = piece.source;
    record.source_offset = piece.source_offset;
  }
  return record;
}

using Scalar = std::array<unsigned char, 8>;
struct Multiplier {
  protocol::ElementType type;
  Scalar scalar;
};

// A piece of known bytes, in chunks. `multiplier` nullptr: as they are.
void EmitKnown(Library& library, PayloadKey key, const void* address,
               const ContentPiece& piece, bool last, const Multiplier* multiplier) {
  const auto* start = static_cast<const unsigned char*>(address) + piece.offset;
  std::vector<unsigned char> chunk(std::min(piece.bytes, kPayloadChunk));
  for (uint64_t done = 0; done < piece.bytes; done += chunk.size()) {
    ContentPiece part = piece;
    part.offset = piece.offset + done;
    part.bytes = std::min<uint64_t>(chunk.size(), piece.bytes - done);
    library.gpu().Read(start + done, part.bytes, chunk.data());
    if (multiplier != nullptr)
      Multiply(multiplier->type, multiplier->scalar.data(), chunk.data(), part.bytes);
    library.channel().Emit(
        NewRecord(key, part, last && done + part.bytes == piece.bytes), chunk.data(),
        part.bytes);
  }
}

// Nothing where the scalar lies on the device and a kernel would have computed it.
std::optional<Scalar> ReadScalar(Library& library, const UserReduction& multiplier,
                                 uint64_t bytes) {
  if (multiplier.device_scalar == nullptr)
    return multiplier.scalar;
  Scalar scalar{};
  for (const ContentPiece& piece :
       library.gpu().Inspect(multiplier.device_scalar, bytes)) {
    if (piece.state != PayloadState::kKnown)
      return std::nullopt;
  }
  library.gpu().Read(multiplier.device_scalar, bytes, scalar.data());
  return scalar;
}

// The pieces of a range that is multiplied, and by what: nothing where no piece is
// known.
std::vector<ContentPiece> InspectMultiplied(Library& library, const void* address,
                                            uint64_t bytes,
                                            const UserReduction& multiplier,
                                            std::optional<Multiplier>* by) {
  const auto type = static_cast<protocol::ElementType>(multiplier.type);
  const uint64_t element = ElementBytes(type);
  const std::optional<Scalar> scalar = ReadScalar(library, multiplier, element);
  if (scalar.has_value())
    *by = Multiplier{type, *scalar};
  std::vector<ContentPiece> pieces = library.gpu().Inspect(address, bytes);
  MergePieces(&pieces);
  std::vector<ContentPiece> multiplied;
  const auto add = [&](PayloadState state, uint64_t begin, uint64_t end) {
    multiplied.push_back({state, begin, end - begin, {}, 0});
  };
  for (const ContentPiece& piece : pieces) {
    const uint64_t end = piece.offset + piece.bytes;
    // Elements of which all is known.
    const uint64_t first = (piece.offset + element - 1) / element * element;
    const uint64_t last = end / element * element;
    if (!by->has_value() || piece.state != PayloadState::kKnown || first >= last) {
      add(PayloadState::kComputed, piece.offset, end);
      continue;
    }
    add(PayloadState::kComputed, piece.offset, first);
    add(PayloadState::kKnown, first, last);
    add(PayloadState::kComputed, last, end);
  }
  MergePieces(&multiplied);
  return multiplied;
}

uint32_t TakeNumber(std::vector<uint32_t>* counters, uint32_t ranks, uint32_t peer) {
  if (counters->empty())
    counters->resize(ranks);
  return (*counters)[peer]++;
}

}  // namespace

PayloadKey NextCollective(Communicator* communicator) {
  return {communicator->number, communicator->collectives++, protocol::kNone, 0};
}

PayloadKey NextTransfer(Communicator* communicator, uint32_t peer, bool is_send) {
  auto* counters = is_send ? &communicator->sent : &communicator->received;
  return {communicator->number, TakeNumber(counters, communicator->ranks, peer), peer,
          1};
}

void MergePieces(std::vector<ContentPiece>* pieces) {
  size_t kept = 0;
  for (const ContentPiece& piece : *pieces) {
    if (piece.bytes == 0)
      continue;
    if (kept > 0 && Continues((*pieces)[kept - 1], piece))
      (*pieces)[kept - 1].bytes += piece.bytes;
    else
      (*pieces)[kept++] = piece;
  }
  pieces->resize(kept);
}

void Deposit(Library& library, PayloadKey key, const void* address, uint64_t bytes) {
  if (bytes == 0)
    return;
  std::vector<ContentPiece> pieces = library.gpu().Inspect(address, bytes);
  MergePieces(&pieces);
  for (const ContentPiece& piece : pieces) {
    const bool last = &piece == &pieces.back();
    if (piece.state == PayloadState::kKnown)
      EmitKnown(library, key, address, piece, last, nullptr);
    else
      library.channel().Emit(NewRecord(key, piece, last));
  }
}

void DepositMultiplied(Library& library, PayloadKey key, const void* address,
                       uint64_t bytes, const UserReduction& multiplier) {
  if (bytes == 0)
    return;
  std::optional<Multiplier> by;
  const std::vector<ContentPiece> pieces =
      InspectMultiplied(library, address, bytes, multiplier, &by);
  for (const ContentPiece& piece : pieces) {
    const bool last = &piece == &pieces.back();
    if (piece.state == PayloadState::kKnown)
      EmitKnown(library, key, address, piece, last, &*by);
    else
      library.channel().Emit(NewRecord(key, piece, last));
  }
}

std::vector<MultipliedPiece> MultipliedContent(Library& library, const void* address,
                                               uint64_t bytes,
                                               const UserReduction& multiplier) {
  std::optional<Multiplier> by;
  std::vector<MultipliedPiece> results;
  for (const ContentPiece& piece :
       InspectMultiplied(library, address, bytes, multiplier, &by)) {
    MultipliedPiece result{piece.offset, piece.bytes, {}};
    if (piece.state == PayloadState::kKnown) {
      result.known.resize(piece.bytes);
      library.gpu().Read(static_cast<const unsigned char*>(address) + piece.offset,
                         piece.bytes, result.known.data());
      Multiply(by->type, by->scalar.data(), result.known.data(), piece.bytes);
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace vrank::nccl
