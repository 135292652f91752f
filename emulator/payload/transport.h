// How bytes get from one real rank to another: the seam between the session, which
// reads what ranks contribute and answers what they look at, and whatever carries it.
//
// On one host it is PayloadHub (hub.h): contributions come out of a rank's segment and
// results go into one, and both are memory that the rank shares with the emulator. A
// transport between hosts carries the same calls to where the other ranks are. What
// makes that possible:
//   - Nothing is asked back but Fetch. A contribution may still be on its way when the
//     call returns; an error that it turns out to be may come with a later call.
//   - Fetch does not wait: kUnderWay says that the answer is still coming, and the
//     caller asks again. Nothing else holds the session up meanwhile.
//   - Ranks and communicators go by numbers that hold in the whole job (world rank,
//     identity), or by the rank's own (its communicators, its operations).
//   - Memory belongs to the transport alone: no span outlives the call it came with.
//
// Order. The calls for one rank come in the order of its program; a Fetch sees every
// call that came before it, of whatever rank.
//
// Lifetime. Nothing may be left in a place with a name (files, /dev/shm, ports that
// stay open) should any process be killed: memory without a name, and connections that
// end with their owner.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_PAYLOAD_TRANSPORT_H_
#define VRANK_EMULATOR_PAYLOAD_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/protocol.h"
#include "graph/schema/op.h"

namespace vrank::emulator {

class PayloadTransport {
 public:
  virtual ~PayloadTransport() = default;

  // The communicator that `rank` calls `number` exists. `members`: world ranks in
  // communicator order; `index`: the rank's place. Real ranks only.
  virtual void AddCommunicator(int32_t rank, uint32_t number,
                               const std::string& identity,
                               std::span<const int32_t> members, uint32_t index) = 0;
  // The rank's program uses this number no more. Results stay fetchable.
  virtual void ReleaseCommunicator(int32_t rank, uint32_t number) = 0;

  // A piece of a contribution. Errors are the guest's: they name the rule broken. In a
  // communicator of one rank, which calls no collective, the last piece completes it.
  virtual absl::Status Deposit(int32_t rank, const protocol::Payload& payload,
                               std::span<const std::byte> bytes) = 0;
  // The rank makes its next collective call on the communicator: its contribution is
  // complete, what was not deposited is computed.
  virtual absl::Status Collective(int32_t rank, uint32_t number,
                                  const graph::CollectiveCall& call) = 0;
  // The same for the sends of one fused group.
  virtual absl::Status Transfers(int32_t rank, uint32_t number,
                                 std::span<const protocol::Transfer> transfers) = 0;

  // The rank is gone, and no call for it comes any more. What it has not contributed to
  // never comes: results of such operations are computed, for whoever looks at them.
  virtual void LoseRank(int32_t rank) = 0;

  enum class FetchState {
    kNotReady,  // some real member has not contributed yet
    kComputed,
    kKnown,
    kUnderWay,  // the transport does not know yet: ask again
  };
  struct Fetched {
    FetchState state = FetchState::kNotReady;
    uint64_t bytes = 0;           // length of the stretch found, at most what was asked
    uint64_t mirrored_bytes = 0;  // of these, made up for virtual ranks
    bool recorded = false;        // ... namely taken from the recorded run
    std::vector<std::byte> data;  // kKnown
    // Made up, and the beginning of an object that a real rank serialized: a program
    // that gathers one of each rank has a copy in place of the virtual one's own.
    bool copies_object = false;
    // kComputed: the virtual rank that would have sent it, where no real rank's send
    // stands for it; -1: there is none.
    int32_t unknown_from = -1;
  };
  // A stretch with one origin at `offset` of the rank's result.
  virtual absl::StatusOr<Fetched> Fetch(int32_t rank, const protocol::PayloadKey& key,
                                        uint64_t offset, uint64_t bytes) = 0;

  // Which communicator of a real rank stands for one of a virtual rank that follows it:
  // by the virtual rank and the communicator's identity, the real rank and its own
  // number. A transport that is not given this, or makes no use of it, has nothing for
  // what followers send into communicators in which their leaders are not.
  using LeaderLookup = std::function<std::optional<std::pair<int32_t, uint32_t>>(
      int32_t rank, const std::string& communicator)>;
  virtual void SetLeaderLookup(LeaderLookup) {}

  // Known bytes that were given up for want of room.
  virtual uint64_t dropped_bytes() const = 0;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_PAYLOAD_TRANSPORT_H_
