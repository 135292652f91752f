// One collective or one transfer as the data plane sees it: who contributed what, and
// what a member finds in its result.
//
// The reduction order is ascending member index, rounding to the element type after
// every step. Absent (virtual) members follow the mirror policy: a virtual peer holds
// what its real peers hold, so that
//   sums         are exact over the real members, then scaled by members / real members
//                (a pre-multiplied sum's contributions come multiplied)
//   products     go through the real members again and again, in order, as often as
//                there are members; they are rounded once
//   averages     are taken over the real members; so are minima and maxima
//   gathers      show in the place of a virtual member what the nearest real one before
//                it has put in (before the first: the last), to every caller the same
//   all-to-all   shows the caller's own block addressed to itself there
//   broadcasts   and scatters from a virtual root leave what the caller's receive
//   buffer
//                held
//   receives     from a virtual sender are computed, but where the caller gathers: they
//                show its own part
// A byte that some kernel would have computed makes every element that depends on it
// computed, and no other.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_PAYLOAD_OPERATION_H_
#define VRANK_EMULATOR_PAYLOAD_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulator/payload/content.h"
#include "emulator/payload/policy.h"
#include "graph/schema/op.h"

namespace vrank::emulator {

// Sizes of a call's buffers, per member. Empty where they do not fit 64 bits.
struct CallBytes {
  uint64_t chunk = 0;         // count elements
  uint64_t contribution = 0;  // what a member puts in (nothing where it is no source)
  uint64_t result = 0;        // what it gets out
};
std::optional<CallBytes> BytesOf(const graph::CollectiveCall& call, uint64_t members,
                                 uint32_t index);

class Operation {
 public:
  struct Contribution {
    Content content;
    bool closed = false;
  };

  // `real`: member indices that are real, ascending. `members`: size of the
  // communicator.
  Operation(std::vector<uint32_t> real, uint32_t members);

  // Slot of a real member among the contributions. REQUIRES: member is real.
  size_t SlotOf(uint32_t member) const;
  bool IsReal(uint32_t member) const;
  // The last real one up to `member`; below the first the last of all.
  uint32_t NearestReal(uint32_t member) const;
  Contribution& contribution(size_t slot) { return contributions_[slot]; }
  std::vector<Contribution>& contributions() { return contributions_; }

  // How absent members are stood in for; kRecorded is as kMirror here.
  void set_policy(PayloadPolicy policy) { policy_ = policy; }
  PayloadPolicy policy() const { return policy_; }
  // Equal calls that came before on the communicator.
  void set_calls_before(uint32_t calls) { calls_before_ = calls; }
  uint32_t calls_before() const { return calls_before_; }

  // The call is known once the first member has made it.
  void set_call(const graph::CollectiveCall& call) { call_ = call; }
  const std::optional<graph::CollectiveCall>& call() const { return call_; }

  // Whether a result depends on what this member puts in. REQUIRES: a call.
  bool Counts(uint32_t member) const;
  // Every contribution that the member's result depends on is closed and resolved.
  bool ReadyFor(uint32_t member) const;
  // ... on which any member's does.
  bool AllReady() const;
  // Results depend on one member's contribution: the root's, or one's own.
  bool OneSuffices() const;
  // No contribution holds a known or a derived byte.
  bool AllComputed() const;
  uint64_t known_bytes() const;

  // Replaces the contributions to a reduction by its result, which is reduced once
  // then, not for every member that looks at it. Nothing where there is no more than
  // one contribution, or no reduction. REQUIRES: AllReady(), a call.
  void Fold();

  // The stretch with one origin at `offset` of the member's result. `out` receives the
  // bytes of a known one. REQUIRES: ReadyFor(member), 0 < limit, a call, offset + limit
  // within the result.
  Content::Stretch Result(uint32_t member, uint64_t offset, uint64_t limit,
                          std::vector<std::byte>* out) const;
  // The same for a transfer: the sender's contribution is what the receiver finds.
  Content::Stretch Received(uint64_t offset, uint64_t limit,
                            std::vector<std::byte>* out) const;

 private:
  // Where the bytes of a result that is no reduction come from.
  struct Origin {
    size_t slot = 0;
    uint64_t offset = 0;  // in that contribution
    uint64_t bytes = 0;   // to the end of the chunk
    bool mirrored = false;
  };
  Origin OriginOf(uint32_t member, uint64_t offset) const;
  // `offset`: in the contributions, which the reduced values take the place of.
  Content::Stretch Reduced(uint64_t offset, uint64_t limit,
                           std::vector<std::byte>* out) const;
  Content::Stretch ReduceContributions(uint64_t offset, uint64_t limit,
                                       std::vector<std::byte>* out) const;
  void ReduceKnown(std::span<const std::byte* const> inputs, uint64_t bytes,
                   std::vector<std::byte>* out) const;
  void AddVirtual(std::span<const std::byte* const> inputs, uint64_t bytes,
                  std::vector<std::byte>* out) const;

  std::vector<uint32_t> real_;
  uint32_t members_;
  PayloadPolicy policy_ = PayloadPolicy::kMirror;
  uint32_t calls_before_ = 0;
  std::optional<graph::CollectiveCall> call_;
  std::vector<Contribution> contributions_;  // one per real member
  std::optional<Content> folded_;            // instead of what these held
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_PAYLOAD_OPERATION_H_
