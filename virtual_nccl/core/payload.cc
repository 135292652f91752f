// Contributions, piece by piece.

#include "virtual_nccl/core/payload.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/guest/multiply.h"
#include "virtual_nccl/core/call.h"

namespace vrank::nccl {
namespace {

using protocol::FactorState;
using protocol::PayloadFactor;
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

// A piece of known bytes, in chunks. `factor` nullptr: as they are.
void EmitKnown(Library& library, PayloadKey key, const void* address,
               const ContentPiece& piece, bool last, const PayloadFactor* factor) {
  const auto* start = static_cast<const unsigned char*>(address) + piece.offset;
  std::vector<unsigned char> chunk(std::min(piece.bytes, kPayloadChunk));
  for (uint64_t done = 0; done < piece.bytes; done += chunk.size()) {
    ContentPiece part = piece;
    part.offset = piece.offset + done;
    part.bytes = std::min<uint64_t>(chunk.size(), piece.bytes - done);
    library.gpu().Read(start + done, part.bytes, chunk.data());
    protocol::Payload record =
        NewRecord(key, part, last && done + part.bytes == piece.bytes);
    if (factor != nullptr && factor->state == FactorState::kKnown)
      Multiply(factor->type, factor->value, chunk.data(), part.bytes);
    else if (factor != nullptr)
      record.factor = *factor;
    library.channel().Emit(record, chunk.data(), part.bytes);
  }
}

// Nothing where the scalar lies on the device and a kernel would have computed it.
std::optional<PayloadFactor> FactorOf(Library& library, const UserReduction& multiplier,
                                      protocol::ElementType type) {
  PayloadFactor factor{};
  factor.state = FactorState::kKnown;
  factor.type = type;
  if (multiplier.device_scalar == nullptr) {
    std::copy(multiplier.scalar.begin(), multiplier.scalar.end(), factor.value);
    return factor;
  }
  const uint64_t bytes = ElementBytes(type);
  std::vector<ContentPiece> pieces =
      library.gpu().Inspect(multiplier.device_scalar, bytes);
  MergePieces(&pieces);
  if (pieces.size() != 1 || pieces[0].state == PayloadState::kComputed)
    return std::nullopt;
  if (pieces[0].state == PayloadState::kKnown) {
    library.gpu().Read(multiplier.device_scalar, bytes, factor.value);
    return factor;
  }
  factor.state = FactorState::kDerived;
  factor.source = pieces[0].source;
  factor.source_offset = pieces[0].source_offset;
  return factor;
}

// The pieces of a range that is multiplied: whole elements of one origin, and between
// them what is computed.
std::vector<ContentPiece> InspectElements(Library& library, const void* address,
                                          uint64_t bytes, uint64_t element) {
  std::vector<ContentPiece> pieces = library.gpu().Inspect(address, bytes);
  MergePieces(&pieces);
  std::vector<ContentPiece> elements;
  const auto add_computed = [&](uint64_t begin, uint64_t end) {
    elements.push_back({PayloadState::kComputed, begin, end - begin, {}, 0});
  };
  for (const ContentPiece& piece : pieces) {
    const uint64_t end = piece.offset + piece.bytes;
    const uint64_t first = (piece.offset + element - 1) / element * element;
    const uint64_t last = end / element * element;
    if (piece.state == PayloadState::kComputed || first >= last) {
      add_computed(piece.offset, end);
      continue;
    }
    add_computed(piece.offset, first);
    elements.push_back({piece.state, first, last - first, piece.source,
                        piece.source_offset + (first - piece.offset)});
    add_computed(last, end);
  }
  MergePieces(&elements);
  return elements;
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

void PromiseOwnPart(Library& library, std::span<const Call* const> calls) {
  const Communicator& communicator = *calls.front()->communicator;
  const uint64_t bytes = calls.front()->bytes();
  if (calls.size() + 1 != communicator.ranks || bytes == 0)
    return;
  const auto address = [](const Call* call) {
    return reinterpret_cast<uintptr_t>(call->receive);
  };
  // Wraps around where they are not in order, and the places differ then.
  const Call* const first = calls.front();
  const Call* const last = calls.back();
  const uintptr_t step =
      calls.size() < 2 || last->root == first->root
          ? bytes
          : (address(last) - address(first)) / (last->root - first->root);
  const auto place = [&](const Call* call) {
    return address(call) - call->root * step;
  };
  for (const Call* call : calls)
    if (call->kind == Request::kSend || call->root == communicator.rank ||
        call->bytes() != bytes || place(call) != place(first))
      return;
  const auto* own =
      reinterpret_cast<const unsigned char*>(place(first)) + communicator.rank * step;
  const int device = library.gpu().MemoryDevice(first->receive);
  if (device < 0 || library.gpu().MemoryDevice(own) != device ||
      library.gpu().MemoryDevice(own + bytes - 1) != device)
    return;
  library.PromiseOwnPart(
      {{communicator.number, 0, communicator.rank, protocol::kOwnPart}, own, bytes});
  if (!library.awaits_fetch.exchange(true))
    library.gpu().BeforeNextFetch([&library] {
      library.awaits_fetch.store(false);
      DepositOwnParts(library);
    });
}

void DepositOwnParts(Library& library) {
  for (const OwnPart& part : library.TakeOwnParts())
    if (library.gpu().MemoryDevice(part.address) >= 0)
      Deposit(library, part.key, part.address, part.bytes);
}

void DepositMultiplied(Library& library, PayloadKey key, const void* address,
                       uint64_t bytes, const UserReduction& multiplier) {
  if (bytes == 0)
    return;
  const auto type = static_cast<protocol::ElementType>(multiplier.type);
  const std::optional<PayloadFactor> factor = FactorOf(library, multiplier, type);
  if (!factor.has_value()) {
    library.channel().Emit(
        NewRecord(key, {PayloadState::kComputed, 0, bytes, {}, 0}, true));
    return;
  }
  const std::vector<ContentPiece> pieces =
      InspectElements(library, address, bytes, ElementBytes(type));
  for (const ContentPiece& piece : pieces) {
    const bool last = &piece == &pieces.back();
    if (piece.state == PayloadState::kKnown) {
      EmitKnown(library, key, address, piece, last, &*factor);
      continue;
    }
    protocol::Payload record = NewRecord(key, piece, last);
    if (piece.state == PayloadState::kDerived)
      record.factor = *factor;
    library.channel().Emit(record);
  }
}

}  // namespace vrank::nccl
