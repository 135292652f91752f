#include "graph/scale/program_scaler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"

namespace vrank::graph {
namespace {

constexpr char kReplicas[] = "dp";

// A communicator of the program, as both layouts have it.
struct Group {
  DimensionSet dimensions = 0;
  const std::vector<int32_t>* members = nullptr;  // of the graph's size
  bool resized = false;                           // spans the resized dimension
  bool is_sharded = false;                        // sees a reduce-scatter
};

class Scaler {
 public:
  Scaler(const Resizing& resizing, int32_t rank, const Program& program,
         ScaleCounts* counts)
      : resizing_(resizing), rank_(rank), program_(program), counts_(counts) {}

  absl::StatusOr<std::unique_ptr<Program>> Run(
      const std::map<uint32_t, std::vector<int32_t>>& members);

 private:
  const Layout& from() const { return resizing_.from(); }
  const Layout& to() const { return resizing_.to(); }
  absl::Status FindGroups(const std::map<uint32_t, std::vector<int32_t>>& members);
  // The communicator of an op. A file may name one that the rank is no member of.
  absl::StatusOr<const Group*> GroupOf(uint32_t number) const;
  // The rank at a place of a communicator.
  absl::StatusOr<int32_t> MemberAt(const Group& group, uint32_t place) const;
  absl::StatusOr<Creation> ScaleCreation(uint32_t number, const Creation& creation);
  absl::StatusOr<CollectiveCall> ScaleCollective(const Group& group,
                                                 const CollectiveCall& call);
  absl::StatusOr<std::vector<Transfer>> ScaleTransfers(
      const Group& group, const std::vector<Transfer>& transfers);
  // Where a member of the old group is in the new one.
  uint32_t PlaceOf(const Group& group, uint32_t place) const {
    return static_cast<uint32_t>(
        to().PlaceInGroup(resizing_.RankAt((*group.members)[place]), group.dimensions));
  }
  absl::Status Refuse(const std::string& what) const {
    return absl::FailedPreconditionError(fmt::format("rank {}: {}", rank_, what));
  }

  const Resizing& resizing_;
  const int32_t rank_;
  const Program& program_;
  ScaleCounts* const counts_;
  std::map<uint32_t, Group> groups_;
};

absl::Status Scaler::FindGroups(
    const std::map<uint32_t, std::vector<int32_t>>& members) {
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
    if (group.resized && ranks != from().Group(rank_, group.dimensions))
      return Refuse(fmt::format(
          "communicator {} (ranks {}) spans dp, but is no group of the layout {}",
          number, FormatRanks(ranks), from().ToString()));
    groups_[number] = group;
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
  const auto found = groups_.find(number);
  if (found == groups_.end())
    return scaled;  // takes no part
  const DimensionSet dimensions = found->second.dimensions;
  const int32_t rank = resizing_.RankAt(rank_);
  const auto place = static_cast<uint32_t>(to().PlaceInGroup(rank, dimensions));
  if (creation.parent == 0) {
    scaled.ranks = static_cast<uint32_t>(to().GroupSize(dimensions));
    scaled.rank = place;
    return scaled;
  }
  ASSIGN_OR_RETURN(const Group* parent, GroupOf(creation.parent));
  const DimensionSet outside = parent->dimensions & ~dimensions;
  scaled.color = static_cast<int32_t>(to().PlaceInGroup(rank, outside));
  scaled.key = static_cast<int32_t>(place);
  return scaled;
}

absl::StatusOr<CollectiveCall> Scaler::ScaleCollective(const Group& group,
                                                       const CollectiveCall& call) {
  if (!group.resized)
    return call;
  CollectiveCall scaled = call;
  ASSIGN_OR_RETURN(const int32_t root, MemberAt(group, call.root));
  if (!resizing_.Keeps(root))
    return Refuse(
        fmt::format("{} has rank {} as its root, a replica that is not among "
                    "those of the layout {}",
                    Name(call.operation), root, to().ToString()));
  scaled.root = call.root == 0 ? 0 : PlaceOf(group, root);
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
    ASSIGN_OR_RETURN(const int32_t peer, MemberAt(group, transfer.peer));
    if (from().Combine(rank_, resizing_.resized(), peer) != rank_)
      return Refuse(fmt::format(
          "it {} rank {}, which is another replica; which replica that would be in "
          "another number of them is not known",
          transfer.is_send != 0 ? "sends to" : "receives from", peer));
    transfer.peer = PlaceOf(group, peer);
  }
  return scaled;
}

absl::StatusOr<std::unique_ptr<Program>> Scaler::Run(
    const std::map<uint32_t, std::vector<int32_t>>& members) {
  RETURN_IF_ERROR(FindGroups(members));
  auto scaled = std::make_unique<Program>(/*retain=*/true);
  const Details& details = program_.details();
  for (const std::string& name : details.names)
    scaled->AddName(name);  // in their order: ops keep their indices
  for (uint64_t i = 0; i < program_.size(); ++i) {
    Op op = program_.op(i);
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
    }
    scaled->Append(op);
  }
  scaled->Close();
  return scaled;
}

}  // namespace

absl::StatusOr<Resizing> Resizing::Make(Layout from, Layout to) {
  const std::vector<Dimension>& old = from.dimensions();
  const std::vector<Dimension>& now = to.dimensions();
  const bool same = std::equal(
      old.begin(), old.end(), now.begin(), now.end(),
      [](const Dimension& a, const Dimension& b) { return a.name == b.name; });
  if (!same)
    return absl::InvalidArgumentError(fmt::format(
        "the layout {} is not that of the graph, {}, with another dp: the same "
        "dimensions in the same order, each above 1",
        to.ToString(), from.ToString()));
  size_t resized = old.size();
  for (size_t i = 0; i < old.size(); ++i) {
    if (old[i].size == now[i].size)
      continue;
    if (old[i].name != kReplicas)
      return absl::InvalidArgumentError(fmt::format(
          "{}={} instead of {}: only dp can change; with another {} every kernel and "
          "every schedule would be another one: trace the job at that size",
          old[i].name, now[i].size, old[i].size, old[i].name));
    resized = i;
  }
  if (resized == old.size())
    return absl::InvalidArgumentError(
        fmt::format("the graph has the layout {} already", from.ToString()));
  return Resizing(std::move(from), std::move(to), resized);
}

int32_t Resizing::RankAt(int32_t rank) const {
  int32_t moved = 0;
  for (size_t i = 0; i < from_.dimensions().size(); ++i)
    moved += from_.Coordinate(rank, i) % to_.dimensions()[i].size *
             to_.dimensions()[i].stride;
  return moved;
}

bool Resizing::Keeps(int32_t rank) const {
  return from_.Coordinate(rank, dimension_) < to_.dimensions()[dimension_].size;
}

uint64_t Resizing::ShareOf(uint64_t count) const {
  const auto old = static_cast<uint64_t>(from_.dimensions()[dimension_].size);
  const auto now = static_cast<uint64_t>(to_.dimensions()[dimension_].size);
  return (count * old + now - 1) / now;
}

absl::StatusOr<std::unique_ptr<Program>> ScaleProgram(
    const Resizing& resizing, int32_t rank, const Program& program,
    const std::map<uint32_t, std::vector<int32_t>>& members, ScaleCounts* counts) {
  return Scaler(resizing, rank, program, counts).Run(members);
}

}  // namespace vrank::graph
