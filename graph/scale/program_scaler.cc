#include "graph/scale/program_scaler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/schema/pair_id.h"

namespace vrank::graph {
namespace {

// A communicator of the program, as both layouts have it.
struct Group {
  DimensionSet dimensions = 0;
  const std::vector<int32_t>* members = nullptr;  // of the graph's size
  std::vector<int32_t> scaled;                    // members of the other size
  bool resized = false;                           // spans the resized dimension
  bool is_sharded = false;                        // sees a reduce-scatter
};

class Scaler {
 public:
  Scaler(const Resizing& resizing, int32_t rank, int32_t becomes,
         const Program& program, const CommunicatorMemory& memory, ScaleCounts* counts)
      : resizing_(resizing),
        rank_(rank),
        becomes_(becomes),
        program_(program),
        memory_(memory),
        counts_(counts) {}

  absl::StatusOr<std::unique_ptr<Program>> Run(const MembersByNumber& members);

 private:
  const Layout& from() const { return resizing_.from(); }
  const Layout& to() const { return resizing_.to(); }
  absl::Status FindGroups(const MembersByNumber& members);
  absl::Status FindScaledMembers(uint32_t number, Group* group) const;
  // Its first and its last stage, and no others.
  bool HoldsPipelineEnds(const Group& group) const;
  // The communicator of an op. A file may name one that the rank is no member of.
  absl::StatusOr<const Group*> GroupOf(uint32_t number) const;
  // The rank at a place of a communicator.
  absl::StatusOr<int32_t> MemberAt(const Group& group, uint32_t place) const;
  absl::StatusOr<Creation> ScaleCreation(uint32_t number, const Creation& creation);
  absl::StatusOr<CollectiveCall> ScaleCollective(const Group& group,
                                                 const CollectiveCall& call);
  absl::StatusOr<std::vector<Transfer>> ScaleTransfers(
      const Group& group, const std::vector<Transfer>& transfers);
  // Bytes of a memory op. `latest`: the communicator that was made or released last,
  // whose memory that is; nullptr: the rank is no member of it.
  int64_t ScaleMemory(const Op& op, const Group* latest) const;
  // Where a rank of the new size is in a group.
  static uint32_t PlaceOf(const Group& group, int32_t rank) {
    const auto place = std::lower_bound(group.scaled.begin(), group.scaled.end(), rank);
    return static_cast<uint32_t>(place - group.scaled.begin());
  }
  // The rank that is as far away from the new place as `other` from the old one.
  int32_t Moved(int32_t other) const {
    int32_t moved = becomes_;
    for (size_t i = 0; i < from().dimensions().size(); ++i)
      moved += (from().Coordinate(other, i) - from().Coordinate(rank_, i)) *
               to().dimensions()[i].stride;
    return moved;
  }
  absl::Status Refuse(const std::string& what) const {
    return absl::FailedPreconditionError(fmt::format("rank {}: {}", rank_, what));
  }

  const Resizing& resizing_;
  const int32_t rank_, becomes_;
  const Program& program_;
  const CommunicatorMemory memory_;
  ScaleCounts* const counts_;
  std::map<uint32_t, Group> groups_;
};

absl::Status Scaler::FindGroups(const MembersByNumber& members) {
  for (const auto& [number, ranks] : members) {
    Group group;
    group.members = &ranks;
    group.dimensions = from().Varying(ranks);
    group.resized = (group.dimensions & resizing_.resized()) != 0;
    if (!std::is_sorted(ranks.begin(), ranks.end()))
      return Refuse(fmt::format(
          "communicator {} has ranks {} in another order than theirs; which order "
          "another size would have is not known",
          number, FormatRanks(ranks)));
    RETURN_IF_ERROR(FindScaledMembers(number, &group));
    groups_[number] = std::move(group);
  }
  for (uint64_t i = 0; i < program_.size(); ++i) {
    const Op& op = program_.op(i);
    if (op.kind == OpKind::kCollective && groups_.contains(op.a) &&
        program_.details().collectives[op.b].operation ==
            CollectiveKind::kReduceScatter)
      groups_[op.a].is_sharded = true;
  }
  return absl::OkStatus();
}

absl::Status Scaler::FindScaledMembers(uint32_t number, Group* group) const {
  const std::vector<int32_t>& ranks = *group->members;
  if (!group->resized) {
    for (const int32_t rank : ranks)
      group->scaled.push_back(resizing_.RankAt(rank, resizing_.NewPlace(becomes_)));
  } else if (ranks == from().Group(rank_, group->dimensions)) {
    group->scaled = to().Group(becomes_, group->dimensions);
  } else if (resizing_.stages() && HoldsPipelineEnds(*group)) {
    for (const int32_t rank : ranks)
      group->scaled.push_back(resizing_.RankAt(
          rank, resizing_.OldPlace(rank) == 0 ? 0 : resizing_.new_size() - 1));
    std::sort(group->scaled.begin(), group->scaled.end());
  } else {
    return Refuse(fmt::format(
        "communicator {} (ranks {}) spans {}, but is no group of the layout {}", number,
        FormatRanks(ranks), resizing_.stages() ? "pp" : "dp", from().ToString()));
  }
  return absl::OkStatus();
}

bool Scaler::HoldsPipelineEnds(const Group& group) const {
  std::vector<int32_t> ends;
  for (const int32_t rank : from().Group(rank_, group.dimensions)) {
    const int32_t stage = resizing_.OldPlace(rank);
    if (stage == 0 || stage == resizing_.old_size() - 1)
      ends.push_back(rank);
  }
  return *group.members == ends;
}

absl::StatusOr<const Group*> Scaler::GroupOf(uint32_t number) const {
  const auto found = groups_.find(number);
  if (found == groups_.end())
    return Refuse(
        fmt::format("it uses communicator {}, of which it is no member", number));
  return &found->second;
}

absl::StatusOr<int32_t> Scaler::MemberAt(const Group& group, uint32_t place) const {
  if (place >= group.members->size())
    return Refuse(fmt::format("it names member {} of a communicator of {}", place,
                              group.members->size()));
  return (*group.members)[place];
}

absl::StatusOr<Creation> Scaler::ScaleCreation(uint32_t number,
                                               const Creation& creation) {
  Creation scaled = creation;
  if (creation.local_members != 1 || !creation.excluded.empty())
    return Refuse(fmt::format(
        "communicator {} has several members in a process, or leaves members of its "
        "parent out; such jobs can't be scaled yet",
        number));
  if (const auto pair = PairOfId(creation.unique_id)) {
    if (resizing_.stages())
      return Refuse(
          "it sends and receives outside of a batch, through communicators of two "
          "ranks; such a job can't be scaled to other stages yet");
    scaled.unique_id = IdOfPair({Moved(pair->first), Moved(pair->second)});
    return scaled;
  }
  const auto found = groups_.find(number);
  if (found == groups_.end())
    return scaled;  // takes no part
  const Group& group = found->second;
  const uint32_t place = PlaceOf(group, becomes_);
  if (creation.parent == 0) {
    scaled.ranks = static_cast<uint32_t>(group.scaled.size());
    scaled.rank = place;
    return scaled;
  }
  ASSIGN_OR_RETURN(const Group* parent, GroupOf(creation.parent));
  const DimensionSet outside = parent->dimensions & ~group.dimensions;
  scaled.color = static_cast<int32_t>(to().PlaceInGroup(becomes_, outside));
  scaled.key = static_cast<int32_t>(place);
  return scaled;
}

absl::StatusOr<CollectiveCall> Scaler::ScaleCollective(const Group& group,
                                                       const CollectiveCall& call) {
  if (!group.resized)
    return call;
  CollectiveCall scaled = call;
  ASSIGN_OR_RETURN(const int32_t old_root, MemberAt(group, call.root));
  const absl::StatusOr<int32_t> root = resizing_.Root(rank_, becomes_, old_root);
  if (!root.ok())
    return Refuse(fmt::format("{} has {}", Name(call.operation),
                              std::string(root.status().message())));
  scaled.root = call.root == 0 ? 0 : PlaceOf(group, *root);
  switch (call.operation) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return scaled;  // the whole is each member's
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      break;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      if (group.is_sharded)
        break;
      ++counts_->kept;
      return scaled;
  }
  scaled.count = resizing_.ShareOf(call.count);
  ++counts_->sharded;
  return scaled;
}

absl::StatusOr<std::vector<Transfer>> Scaler::ScaleTransfers(
    const Group& group, const std::vector<Transfer>& transfers) {
  std::vector<Transfer> scaled = transfers;
  if (!group.resized)
    return scaled;
  for (Transfer& transfer : scaled) {
    ASSIGN_OR_RETURN(const int32_t old_peer, MemberAt(group, transfer.peer));
    const absl::StatusOr<int32_t> peer = resizing_.Peer(rank_, becomes_, old_peer);
    if (!peer.ok())
      return Refuse(fmt::format("it {} {}",
                                transfer.is_send != 0 ? "sends to" : "receives from",
                                std::string(peer.status().message())));
    transfer.peer = PlaceOf(group, *peer);
  }
  return scaled;
}

int64_t Scaler::ScaleMemory(const Op& op, const Group* latest) const {
  if (op.b != static_cast<uint32_t>(MemoryOwner::kCommunicator) || latest == nullptr)
    return op.value;
  const int64_t was = memory_.OnDevice(latest->members->size());
  const int64_t now = memory_.OnDevice(latest->scaled.size());
  return op.value == was ? now : op.value == -was ? -now : op.value;
}

absl::StatusOr<std::unique_ptr<Program>> Scaler::Run(const MembersByNumber& members) {
  RETURN_IF_ERROR(FindGroups(members));
  auto scaled = std::make_unique<Program>(/*retain=*/true);
  const Details& details = program_.details();
  for (const std::string& name : details.names)
    scaled->AddName(name);  // in their order: ops keep their indices
  const Group* latest = nullptr;
  for (uint64_t i = 0; i < program_.size(); ++i) {
    Op op = program_.op(i);
    if (op.kind == OpKind::kCreateCommunicator ||
        op.kind == OpKind::kReleaseCommunicator) {
      const auto found = groups_.find(op.a);
      latest = found == groups_.end() ? nullptr : &found->second;
    }
    if (op.kind == OpKind::kCreateCommunicator) {
      ASSIGN_OR_RETURN(const Creation creation,
                       ScaleCreation(op.a, details.creations[op.b]));
      op.b = scaled->AddCreation(creation);
    } else if (op.kind == OpKind::kCollective) {
      ASSIGN_OR_RETURN(const Group* group, GroupOf(op.a));
      ASSIGN_OR_RETURN(const CollectiveCall call,
                       ScaleCollective(*group, details.collectives[op.b]));
      op.b = scaled->AddCollective(call);
    } else if (op.kind == OpKind::kTransfers) {
      ASSIGN_OR_RETURN(const Group* group, GroupOf(op.a));
      ASSIGN_OR_RETURN(std::vector<Transfer> transfers,
                       ScaleTransfers(*group, details.transfer_groups[op.b]));
      op.b = scaled->AddTransfers(std::move(transfers));
    } else if (op.kind == OpKind::kMemory) {
      op.value = ScaleMemory(op, latest);
    }
    scaled->Append(op);
  }
  scaled->Close();
  return scaled;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> ScaleProgram(const Resizing& resizing,
                                                      int32_t rank, int32_t becomes,
                                                      const Program& program,
                                                      const MembersByNumber& members,
                                                      const CommunicatorMemory& memory,
                                                      ScaleCounts* counts) {
  return Scaler(resizing, rank, becomes, program, memory, counts).Run(members);
}

}  // namespace vrank::graph
