// The data plane of one host: carries bytes between real ranks and makes them up for
// virtual ones. Answers every Fetch at once.
//
// Before each collective a member deposits what it contributes; the bytes of its result
// are fetched only when the program looks at them. Time is not this class's business:
// the engine answers when, the hub answers what.
//
// Memory. The contributions to a reduction become its result once somebody looks at it.
// Contributions that hold no known byte (the normal case) are forgotten as soon
// as all real members have made the call. The others stay, since a program may copy a
// result to the host at any later time, until they exceed a budget: then the oldest
// complete ones are given up, and what they held counts as computed and is reported as
// dropped.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_PAYLOAD_HUB_H_
#define VRANK_EMULATOR_PAYLOAD_HUB_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/protocol.h"
#include "emulator/payload/content.h"
#include "emulator/payload/operation.h"
#include "emulator/payload/policy.h"
#include "emulator/payload/transport.h"
#include "graph/schema/op.h"

namespace vrank::emulator {

// A quarter of the machine's memory, and 512 MiB at least.
uint64_t DefaultRetainedBytes();

struct HubOptions {
  // Known bytes kept for later fetches, over all ranks; each operation counts
  // kOperationBytes more.
  uint64_t retained_bytes = DefaultRetainedBytes();
  // What holds for virtual ranks. Without a fitting rule: kRecorded where there is a
  // recorded run, else kMirror.
  PayloadRules* rules = nullptr;  // these outlive the hub
  const RecordedPayloads* recorded = nullptr;
  RecordedPayloads* recording = nullptr;  // gets every known byte that is fetched
};

// What an operation itself takes, roughly.
inline constexpr uint64_t kOperationBytes = 512;

class PayloadHub final : public PayloadTransport {
 public:
  PayloadHub(const HubOptions& options, std::set<int32_t> real_ranks);

  void AddCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                       std::span<const int32_t> members, uint32_t index) override;
  void ReleaseCommunicator(int32_t rank, uint32_t number) override;
  absl::Status Deposit(int32_t rank, const protocol::Payload& payload,
                       std::span<const std::byte> bytes) override;
  absl::Status Collective(int32_t rank, uint32_t number,
                          const graph::CollectiveCall& call) override;
  absl::Status Transfers(int32_t rank, uint32_t number,
                         std::span<const protocol::Transfer> transfers) override;
  void LoseRank(int32_t rank) override;
  absl::StatusOr<Fetched> Fetch(int32_t rank, const protocol::PayloadKey& key,
                                uint64_t offset, uint64_t bytes) override;
  void SetLeaderLookup(LeaderLookup lookup) override { leader_of_ = std::move(lookup); }

  uint64_t dropped_bytes() const override { return dropped_bytes_; }
  uint64_t retained_bytes() const { return retained_; }
  size_t retained_operations() const { return complete_.size(); }
  // That programs use, or that hold results.
  size_t communicators() const { return communicators_.size(); }

 private:
  struct Key {
    uint32_t is_transfer = 0;
    uint32_t from = 0, to = 0;
    uint32_t sequence = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Communicator {
    std::string identity;
    std::vector<int32_t> members;
    std::vector<uint32_t> real;    // indices of real members, ascending
    std::vector<uint32_t> called;  // collectives called so far, per real member
    // Transfers so far: sends of real members, receives from virtual ones.
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> sent, received;
    std::map<Key, std::shared_ptr<Operation>> operations;
    // Of the latest transfers of a member, if it sends none: the receives from virtual
    // members, for which its own part may stand (protocol::kOwnPart).
    std::map<uint32_t, std::vector<Key>> to_mirror;
    std::map<graph::CollectiveCall, uint32_t> calls;  // equal ones so far
    bool has_virtual = false;
    bool has_lost = false;  // a member
    uint32_t bindings = 0;
    std::vector<std::pair<int32_t, uint32_t>>
        released;  // places that hold results only
  };
  struct Binding {
    std::shared_ptr<Communicator> communicator;
    uint32_t index = 0;
    size_t slot = 0;
  };
  using Place = std::pair<int32_t, uint32_t>;  // rank, its number
  struct Held {
    std::shared_ptr<Communicator> communicator;
    Key key;
  };
  using Source = std::pair<const Communicator*, Key>;
  // A contribution with derived pieces.
  struct Unresolved {
    std::shared_ptr<Communicator> communicator;
    Key key;
    size_t slot = 0;
    int32_t rank = 0;
  };

  absl::StatusOr<Binding*> Find(int32_t rank, uint32_t number);
  static Operation& At(Communicator& communicator, const Key& key);
  PayloadPolicy PolicyFor(const Communicator& communicator,
                          const char* operation) const;
  // What the recorded run holds at the place, or else `fetched` itself.
  Fetched Recorded(PayloadPolicy policy, const std::string& name, uint64_t offset,
                   uint64_t bytes, Fetched fetched) const;
  absl::Status AddPiece(const protocol::Payload& payload,
                        std::span<const std::byte> bytes, Content* content);
  void Close(const std::shared_ptr<Communicator>& communicator, const Key& key,
             size_t slot, int32_t rank);
  // What virtual members have sent a root that gathers is its own part, `own`.
  void MirrorOwnPart(const std::shared_ptr<Communicator>& communicator, const Key& own,
                     int32_t rank);
  // A member is lost, and this one is it, or has given the communicator up since.
  bool WillNotCall(const Communicator& communicator, uint32_t member) const;
  bool NeverComes(const Communicator& communicator, Operation& operation) const;
  // Of the communicator's results, who waits for one.
  void LookAgainAt(const Communicator* communicator);
  void MakeRoom();
  // Every contribution is closed and resolved: the operation is kept, or forgotten.
  void Complete(const std::shared_ptr<Communicator>& communicator, const Key& key,
                const Operation& operation);
  // Looks again at contributions that wait for what is in changed_, and for what
  // changes by that.
  void ResolveDerived();
  void Resolve(const Unresolved& waiting, Operation* operation);
  Source SourceOf(int32_t rank, const protocol::PayloadKey& key) const;
  bool ReadResult(int32_t rank, const Content::Source& source, uint64_t bytes,
                  Content* out);
  // What a piece that waits holds. False where a result is not complete yet: *missing.
  bool ReadOrigin(int32_t rank, const Content::Origin& origin, uint64_t bytes,
                  Content* out, std::optional<Source>* missing);
  void Erase(const std::shared_ptr<Communicator>& communicator, const Key& key);
  void ForgetReleased(Communicator* communicator);
  // Where a virtual member follows a real rank of another communicator at the
  // same place: that communicator, where the leader sends what the member would.
  std::shared_ptr<Communicator> LeadersCommunicator(const Communicator& communicator,
                                                    uint32_t member) const;
  // What a virtual member has sent, made up.
  Fetched MadeUpTransfer(const Binding& binding, const protocol::PayloadKey& key,
                         PayloadPolicy policy, uint64_t offset, uint64_t bytes) const;
  absl::StatusOr<Fetched> FetchCollective(const Binding& binding,
                                          const protocol::PayloadKey& key,
                                          uint64_t offset, uint64_t bytes);
  absl::StatusOr<Fetched> FetchTransfer(const Binding& binding,
                                        const protocol::PayloadKey& key,
                                        uint64_t offset, uint64_t bytes);

  HubOptions options_;
  LeaderLookup leader_of_;
  std::set<int32_t> real_ranks_, lost_ranks_;
  std::map<std::string, std::weak_ptr<Communicator>> communicators_;  // by identity
  std::map<Place, Binding> bindings_;
  // By the operation whose result they wait for, which need not exist yet.
  std::map<Source, std::vector<Unresolved>> waiting_;
  std::vector<Source> changed_;
  std::deque<Held> complete_;  // oldest first
  uint64_t retained_ = 0;
  uint64_t dropped_bytes_ = 0;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_PAYLOAD_HUB_H_
