// The contract between guest libraries (inside a training process) and the emulator.
//
// Every rank process shares one memory segment with the emulator. The guest writes
// *records* into the segment's ring: each is one call of the program, already
// translated from CUDA and NCCL terms into the terms of the execution graph (lanes,
// tokens, work, communicators). The emulator owns time; a guest that must know a time
// puts an *answer slot* number into the record and waits on that slot. A launch is
// therefore one record and no round trip.
//
// Vocabulary
//   lane      A queue of work that executes in order: a CUDA stream. Lane 0 of a rank
//   is
//             its host thread. The guest numbers lanes from 1 and may reuse a number
//             after kReleaseLane.
//   token     A point in a lane that others can wait for: a CUDA event. Recording it
//             again makes a new generation; waits refer to the generation that is the
//             latest one when the wait is written.
//   host_ns   Host time that passed between the previous record and this one. The host
//             clock of a rank is the sum of these, raised by the waits in between.
//
// Rules
//   - Structs are fixed-size, naturally aligned and trivially copyable; records are
//     multiples of 8 bytes; a variable tail follows the struct and counts in `size`.
//   - Any change of a struct, of an enumerator, of a row of losses.def or
//     host_costs.def or of a meaning bumps kVersion: guests of another version are
//     refused when they connect (there are no old guests to serve).
//   - Guests: C++ standard library and POSIX only. No pointers cross the segment.
//
// Thread rule: one writer at a time (the guest channel's lock), one reader (the
// emulator).

#ifndef VRANK_BASE_GUEST_PROTOCOL_H_
#define VRANK_BASE_GUEST_PROTOCOL_H_

#include "base/guest/protocol_graphs.h"
#include "base/guest/protocol_payloads.h"
#include "base/guest/protocol_records.h"
#include "base/guest/protocol_segment.h"

namespace vrank::protocol {

static_assert(sizeof(Record) == 16);
static_assert(sizeof(Kernel) == 72 && sizeof(Gemm) == 64 && sizeof(Collective) == 48);
static_assert(sizeof(GraphLaunch) == 32 && sizeof(Graph) == 24);
static_assert(sizeof(Transfer) == 16 && sizeof(AnswerSlot) == 64);
static_assert(sizeof(PublishedToken) == 16);
static_assert(sizeof(HostGaps) == 48 && sizeof(HostGap) == 16);
static_assert(sizeof(AllocatorPeak) == 40 && sizeof(AllocatorBlock) == 24);
static_assert(sizeof(ActivityEntry) == 32);

}  // namespace vrank::protocol

#endif  // VRANK_BASE_GUEST_PROTOCOL_H_
