// The records of the guest protocol about what calls of NCCL carry, and what they take.
//
// Include base/guest/protocol.h, which explains the words and the rules.
//
// Thread rule: plain structs.

#ifndef VRANK_BASE_GUEST_PROTOCOL_PAYLOADS_H_
#define VRANK_BASE_GUEST_PROTOCOL_PAYLOADS_H_

#include <cstdint>

#include "base/guest/protocol_records.h"

namespace vrank::protocol {

// Which data of the collective a payload or a fetch is about.
struct PayloadKey {
  uint32_t communicator;
  // Collectives: index of the call on this communicator, from 0, counting collectives
  // only. Transfers: index of the transfer from sender to receiver, from 0.
  uint32_t sequence;
  uint32_t peer;  // transfers: the other side's index; collectives: kNone
  uint32_t is_transfer;
};
// PayloadKey::is_transfer of a deposit: the root's own part of its latest group of
// receives on that communicator. It replaces what virtual members would have sent, and
// is written after the group; `sequence` is 0, `peer` the root's own index.
inline constexpr uint32_t kOwnPart = 2;

enum class PayloadState : uint32_t {
  kKnown = 0,     // bytes follow
  kComputed = 1,  // a kernel would have written it: no bytes exist
  kDerived = 2,   // equals a part of this member's own result of an earlier operation
};

// What the call would take by the network model, its members having arrived. Answer:
// value = nanoseconds.
struct Estimate {
  Record record;
  uint32_t communicator;
  uint32_t slot;
  uint64_t count;  // as Collective's; transfers: bytes
  uint32_t root;   // transfers: the peer's index
  CollectiveKind operation;
  ElementType type;
  Reduction reduction;
  uint8_t transfer;  // 0 collective, 1 send, 2 receive
};

enum class FactorState : uint32_t {
  kNone = 0,
  kKnown = 1,    // `value`
  kDerived = 2,  // a part of this member's own result of an earlier operation
};

// What a piece's elements are still to be multiplied by.
struct PayloadFactor {
  FactorState state;
  ElementType type;
  uint8_t reserved[3];
  uint8_t value[8];        // kKnown: one element
  PayloadKey source;       // kDerived
  uint64_t source_offset;  // kDerived
};

// This member's contribution, in pieces. Precedes its collective's record (a member
// alone has none: what it contributes is its result). With
// Reduction::kPreMulSum bytes that are known, by a factor that is, have been multiplied
// already; others carry the factor, and are whole elements.
struct Payload {
  Record record;
  PayloadKey key;
  PayloadState state;
  uint32_t last;    // 1 on the last piece
  uint64_t offset;  // bytes from the start of the contribution
  uint64_t bytes;
  PayloadKey source;       // kDerived: the earlier operation ...
  uint64_t source_offset;  // ... and where in its result the piece starts
  PayloadFactor factor;
};

// Answer: value = bytes now in the segment's bounce area (a stretch from `offset` on,
// which may be shorter than what was asked for), or kComputedResult where some member's
// contribution to the first of them was computed; end_ns is then the number of bytes
// for which that holds.
inline constexpr uint64_t kComputedResult = ~uint64_t{0};
struct FetchPayload {
  Record record;
  PayloadKey key;
  uint64_t offset;  // bytes from the start of this member's result
  uint64_t bytes;   // at most kBounceBytes
  uint32_t slot;
  uint32_t if_ready;  // 1: answer kNotReady instead of waiting
};
inline constexpr uint64_t kNotReady = ~uint64_t{0} - 1;

}  // namespace vrank::protocol

#endif  // VRANK_BASE_GUEST_PROTOCOL_PAYLOADS_H_
