// The bytes that collectives carry, where the program may look at them.
//
// Most of what a training job exchanges was computed by a kernel, and no kernel runs
// here: then nothing moves but one record that says so. What the program itself put
// into device memory (token counts, shapes, a step number) is deposited with the
// emulator, which forms the result from all members; the result's range in device
// memory is marked, and its bytes are fetched when the program copies them to the host.
// A contribution that is itself the unread result of an earlier call is named, not
// fetched.
//
// Thread rule: REQUIRES the communicator's lock, which keeps sequence numbers in order.

#ifndef VRANK_VIRTUAL_NCCL_CORE_PAYLOAD_H_
#define VRANK_VIRTUAL_NCCL_CORE_PAYLOAD_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/guest/virtual_gpu.h"
#include "virtual_nccl/core/library.h"

namespace vrank::nccl {

struct Call;

// Bytes that one record carries at most.
inline constexpr uint64_t kPayloadChunk = 64 << 10;

// Keys of the communicator's next collective and next transfer with `peer`. Each call
// takes a number.
protocol::PayloadKey NextCollective(Communicator* communicator);
protocol::PayloadKey NextTransfer(Communicator* communicator, uint32_t peer,
                                  bool is_send);

// Says what this member contributes: `bytes` at `address`. Nothing where bytes is 0.
void Deposit(Library& library, protocol::PayloadKey key, const void* address,
             uint64_t bytes);
// The same, each element multiplied on its way by the reduction's scalar: here, or
// where bytes or scalar are an earlier result that has not been looked at, by the
// emulator once it is known. What is computed, or by a scalar that is, stays computed.
void DepositMultiplied(Library& library, protocol::PayloadKey key, const void* address,
                       uint64_t bytes, const UserReduction& multiplier);

// Of sends and receives of one communicator that are the root's part of a gather: one
// receive from each other member, evenly spaced in the order of their indices, with the
// root's own part among them (torch.distributed.gather_object). That part is what a
// member that nobody runs has sent (kOwnPart). Deposited before the next operation,
// fetch or release (DepositOwnParts): PyTorch 2.15 copies it there behind the
// operation. Nothing where they are anything else.
void PromiseOwnPart(Library& library, std::span<const Call* const> calls);
// What was promised.
void DepositOwnParts(Library& library);

// Joins neighbours of one origin, so that a buffer filled in many steps is one piece.
void MergePieces(std::vector<ContentPiece>* pieces);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_PAYLOAD_H_
