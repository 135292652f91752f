// Builds the folded job and answers for it; see quotient.h.

#include "graph/fold/quotient.h"

#include <algorithm>
#include <tuple>

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

namespace vrank::graph {

uint32_t QuotientCommunicator::PlaceOf(Label label) const {
  return static_cast<uint32_t>(std::find(members.begin(), members.end(), label) -
                               members.begin());
}

Quotient::Quotient(const ResolvedJob* job, const Colouring& colouring,
                   const NetworkModel* network)
    : job_(job), colouring_(colouring), network_(network), unfolded_(!job->foldable) {
  representatives_.assign(colouring.colours, kNone);
  for (uint32_t rank = 0; rank < colouring.colour.size(); ++rank) {
    uint32_t& first = representatives_[colouring.colour[rank]];
    first = std::min(first, rank);
    first_alias_ = std::max(first_alias_, job->job.ranks[rank].world_rank + 1);
  }
  FindCommunicators();
  for (uint32_t colour = 0; colour < colouring.colours; ++colour)
    programs_.push_back(ProgramFor(colour));
}

// Instances are one communicator if the same colours meet there, under the same
// numbers, for the same calls at the same prices.
void Quotient::FindCommunicators() {
  using Key = std::tuple<std::vector<Label>, uint32_t, int64_t, std::vector<int64_t>>;
  std::map<Key, uint32_t> known;
  for (uint32_t i = 0; i < job_->instances.size(); ++i) {
    const CommunicatorInstance& instance = job_->instances[i];
    const std::vector<int32_t> ranks = WorldRanks(i);
    Key key{FirstAppearances(LabelsOf(instance, colouring_)),
            instance.sequence,
            network_->Creation(ranks).duration.nanoseconds(),
            {}};
    for (const CollectiveCall& call :
         job_->UseOf(instance.members[0]).communicators.at(instance.numbers[0]).calls) {
      if (call.root < ranks.size()) {
        const Cost cost = network_->Collective(call, ranks);
        std::get<3>(key).push_back(cost.duration.nanoseconds());
        std::get<3>(key).push_back(static_cast<int64_t>(cost.source));
      }
    }
    const auto [at, added] =
        known.try_emplace(key, static_cast<uint32_t>(communicators_.size()));
    if (added) {
      QuotientCommunicator communicator;
      communicator.instance = i;
      communicator.members = std::get<0>(key);
      communicator.whole = communicator.members.size() == instance.members.size();
      communicators_.push_back(std::move(communicator));
    }
    by_instance_.push_back(at->second);
    communicators_[at->second].standing.push_back(i);
  }
  for (QuotientCommunicator& communicator : communicators_) {
    NameMembers(communicator);
    if (communicator.whole)
      continue;
    PriceCalls(communicator);
    FindChannels(communicator);
  }
}

void Quotient::NameMembers(QuotientCommunicator& communicator) {
  if (communicator.whole) {
    communicator.names = WorldRanks(communicator.instance);
    return;
  }
  const auto index = static_cast<uint32_t>(&communicator - communicators_.data());
  for (uint32_t place = 0; place < communicator.members.size(); ++place) {
    communicator.names.push_back(first_alias_ + static_cast<int32_t>(aliases_.size()));
    aliases_.push_back({index, place});
  }
}

void Quotient::PriceCalls(QuotientCommunicator& communicator) {
  const CommunicatorInstance& instance = job_->instances[communicator.instance];
  const std::vector<int32_t> ranks = WorldRanks(communicator.instance);
  const uint32_t member = instance.members[0], number = instance.numbers[0];
  for (const CollectiveCall& call :
       job_->UseOf(member).communicators.at(number).calls) {
    communicator.costs.try_emplace(Rewritten(call, member, number),
                                   network_->Collective(call, ranks));
  }
}

void Quotient::FindChannels(QuotientCommunicator& communicator) {
  const CommunicatorInstance& instance = job_->instances[communicator.instance];
  const std::vector<Label> labels = LabelsOf(instance, colouring_);
  const auto world = [&](uint32_t member) {
    return job_->job.ranks[instance.members[member]].world_rank;
  };
  for (uint32_t m = 0; m < labels.size(); ++m) {
    const uint32_t rank = instance.members[m], number = instance.numbers[m];
    const uint32_t own = communicator.PlaceOf(labels[m]);
    for (const protocol::Transfer& transfer :
         job_->UseOf(rank).communicators.at(number).transfers) {
      const uint32_t peer = PeerOf(*job_, rank, number, transfer);
      const uint32_t other = communicator.PlaceOf(labels[peer]);
      if (transfer.is_send != 0)
        communicator.channels.try_emplace({own, other}, world(m), world(peer));
      else
        communicator.channels.try_emplace({other, own}, world(peer), world(m));
    }
  }
}

std::vector<int32_t> Quotient::WorldRanks(uint32_t instance) const {
  std::vector<int32_t> ranks;
  for (const uint32_t member : job_->instances[instance].members)
    ranks.push_back(job_->job.ranks[member].world_rank);
  return ranks;
}

bool Quotient::MustRewrite(uint32_t rank) const {
  if (unfolded_)
    return false;
  for (const auto& [number, binding] : job_->bindings[rank]) {
    const CommunicatorUse& use = job_->UseOf(rank).communicators.at(number);
    const bool whole = communicators_[by_instance_[binding.instance]].whole;
    if (!use.transfers.empty() && (!whole || job_->PeerShift(rank, number) != 0))
      return true;
    for (const protocol::Transfer& transfer : use.transfers) {
      if ((transfer.peer & kAbsolutePeer) != 0)
        return true;
    }
    for (const CollectiveCall& call : use.calls) {
      if (!whole && call.root != 0)
        return true;
    }
  }
  return false;
}

CollectiveCall Quotient::Rewritten(const CollectiveCall& call, uint32_t rank,
                                   uint32_t number) const {
  const CommunicatorInstance& instance = job_->InstanceOf(rank, number);
  if (call.root >= instance.members.size())
    return call;
  CollectiveCall folded = call;
  folded.root = Of(rank, number).PlaceOf(LabelsOf(instance, colouring_)[call.root]);
  return folded;
}

std::vector<protocol::Transfer> Quotient::Rewritten(
    const std::vector<protocol::Transfer>& transfers, uint32_t rank,
    uint32_t number) const {
  const std::vector<Label> labels =
      LabelsOf(job_->InstanceOf(rank, number), colouring_);
  std::vector<protocol::Transfer> folded = transfers;
  for (protocol::Transfer& transfer : folded) {
    transfer.peer =
        Of(rank, number).PlaceOf(labels[PeerOf(*job_, rank, number, transfer)]);
  }
  return folded;
}

Program* Quotient::ProgramFor(uint32_t colour) {
  const uint32_t rank = representatives_[colour];
  Program* program = job_->job.ranks[rank].program;
  if (!MustRewrite(rank))
    return program;
  rewritten_.push_back(std::make_unique<Program>(true));
  Program& copy = *rewritten_.back();
  const Details& details = program->details();
  for (const graph::Creation& creation : details.creations)
    copy.AddCreation(creation);
  for (const std::string& name : details.names)
    copy.AddName(name);
  // By communicator and index in the details.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> calls, groups;
  for (uint64_t i = 0; i < program->size(); ++i) {
    Op op = program->op(i);
    const bool bound = job_->bindings[rank].count(op.a) != 0;
    if (op.kind == OpKind::kCollective) {
      const auto [at, added] = calls.try_emplace({op.a, op.b});
      if (added) {
        const CollectiveCall& call = details.collectives[op.b];
        at->second = copy.AddCollective(bound ? Rewritten(call, rank, op.a) : call);
      }
      op.b = at->second;
    } else if (op.kind == OpKind::kTransfers) {
      const auto [at, added] = groups.try_emplace({op.a, op.b});
      if (added) {
        const auto& group = details.transfer_groups[op.b];
        at->second = copy.AddTransfers(bound ? Rewritten(group, rank, op.a) : group);
      }
      op.b = at->second;
    }
    copy.Append(op);
  }
  copy.Close();
  return &copy;
}

void Quotient::AddRanks(Engine& engine) {
  for (uint32_t colour = 0; colour < colouring_.colours; ++colour) {
    const ReplayJob::Rank& rank = job_->job.ranks[representatives_[colour]];
    RankOptions options = rank.options;
    // Peers are rewritten.
    if (!unfolded_)
      options.leader = -1;
    engine.AddRank(rank.world_rank, programs_[colour], options);
  }
  const auto played = [&](Label label) {
    return job_->job.ranks[representatives_[label >> 32]].world_rank;
  };
  for (uint32_t rank = 0; rank < colouring_.colour.size(); ++rank) {
    if (representatives_[colouring_.colour[rank]] != rank) {
      engine.AddAlias(job_->job.ranks[rank].world_rank,
                      played(Label{colouring_.colour[rank]} << 32));
    }
  }
  for (size_t i = 0; i < aliases_.size(); ++i) {
    engine.AddAlias(
        first_alias_ + static_cast<int32_t>(i),
        played(communicators_[aliases_[i].communicator].members[aliases_[i].place]));
  }
}

uint32_t Quotient::CommunicatorOf(uint32_t colour, uint32_t number) const {
  const auto& bindings = job_->bindings[representatives_[colour]];
  const auto binding = bindings.find(number);
  return binding == bindings.end() ? kNone : by_instance_[binding->second.instance];
}

void Quotient::NoteIdentity(int32_t rank, uint32_t number,
                            const std::string& identity) {
  by_identity_[identity] = CommunicatorOf(ColourOf(rank), number);
}

absl::StatusOr<Membership::InitAnswer> Quotient::Init(const InitCaller& caller,
                                                      const graph::Creation&) {
  const uint32_t colour = ColourOf(caller.rank);
  const ProgramUse& use = job_->UseOf(representatives_[colour]);
  const uint32_t number = use.inits[caller.number];
  const uint32_t place = CommunicatorOf(colour, number);
  // Not all members create it (ResolveCommunicators): it does not come into being.
  if (place == kNone)
    return absl::UnavailableError("some members do not create it");
  const QuotientCommunicator& communicator = communicators_[place];
  return InitAnswer{job_->instances[communicator.instance].identity,
                    std::make_shared<const std::vector<int32_t>>(communicator.names),
                    communicator.PlaceOf(Label{colour} << 32 | number)};
}

absl::StatusOr<std::vector<Membership::SplitGroup>> Quotient::Split(
    std::string_view parent_identity, uint32_t split_sequence,
    std::span<const SplitMember>) {
  const QuotientCommunicator& parent =
      communicators_[by_identity_.find(parent_identity)->second];
  const CommunicatorInstance& instance = job_->instances[parent.instance];
  const std::vector<Label> labels = LabelsOf(instance, colouring_);
  const auto child_of = [&](uint32_t m, Label* label) {
    const uint32_t rank = instance.members[m];
    const uint32_t number =
        job_->UseOf(rank).splits.at(instance.numbers[m])[split_sequence];
    const auto binding = job_->bindings[rank].find(number);
    *label = Label{colouring_.colour[rank]} << 32 | number;
    return binding == job_->bindings[rank].end() ? kNone : binding->second.instance;
  };
  // The first child that is each communicator. What one member of a label does, all of
  // them do: it is enough to look at the first.
  std::map<uint32_t, uint32_t> first_child;  // communicator -> instance
  absl::flat_hash_set<Label> seen;
  std::vector<bool> takes_part(job_->job.ranks.size());  // members of these
  Label label = 0;
  for (uint32_t m = 0; m < labels.size(); ++m) {
    if ((m > 0 && labels[m] == labels[m - 1]) || !seen.insert(labels[m]).second)
      continue;
    const uint32_t child = child_of(m, &label);
    if (child == kNone || !first_child.try_emplace(by_instance_[child], child).second)
      continue;
    for (const uint32_t rank : job_->instances[child].members)
      takes_part[rank] = true;
  }
  // By the child of the parent's own instance, so that groups keep their places.
  std::map<uint32_t, SplitGroup> groups;
  for (uint32_t m = 0; m < labels.size(); ++m) {
    if (!takes_part[instance.members[m]])
      continue;
    const uint32_t child = child_of(m, &label);
    if (child == kNone || first_child.at(by_instance_[child]) != child)
      continue;
    const QuotientCommunicator& of = communicators_[by_instance_[child]];
    SplitGroup& group = groups[child];
    group.members.resize(of.members.size());
    group.names = of.names;
    group.members[of.PlaceOf(label)] = parent.PlaceOf(labels[m]);
  }
  std::vector<SplitGroup> answer;
  for (auto& [child, group] : groups)
    answer.push_back(std::move(group));
  return answer;
}

const Quotient::Alias* Quotient::Find(int32_t name) const {
  const int64_t alias = int64_t{name} - first_alias_;
  return alias < 0 || alias >= static_cast<int64_t>(aliases_.size())
             ? nullptr
             : &aliases_[static_cast<size_t>(alias)];
}

Cost Quotient::Collective(const CollectiveCall& call,
                          std::span<const int32_t> members) const {
  const Alias* alias = Find(members[0]);
  if (alias == nullptr)
    return network_->Collective(call, members);
  const auto& costs = communicators_[alias->communicator].costs;
  const auto cost = costs.find(call);
  return cost == costs.end() ? Cost{} : cost->second;
}

std::pair<int32_t, int32_t> Quotient::RealPair(int32_t from, int32_t to) const {
  const Alias* sender = Find(from);
  const Alias* receiver = Find(to);
  if (sender == nullptr || receiver == nullptr)
    return {from, to};
  const auto& channels = communicators_[sender->communicator].channels;
  const auto pair = channels.find({sender->place, receiver->place});
  return pair == channels.end() ? std::pair(from, to) : pair->second;
}

Cost Quotient::Transfer(uint64_t bytes, int32_t from, int32_t to) const {
  const auto [real_from, real_to] = RealPair(from, to);
  return network_->Transfer(bytes, real_from, real_to);
}

uint64_t Quotient::TransferCreditBytes(int32_t from, int32_t to) const {
  const auto [real_from, real_to] = RealPair(from, to);
  return network_->TransferCreditBytes(real_from, real_to);
}

Cost Quotient::Creation(std::span<const int32_t> members) const {
  const Alias* alias = Find(members[0]);
  if (alias == nullptr)
    return network_->Creation(members);
  return network_->Creation(WorldRanks(communicators_[alias->communicator].instance));
}

}  // namespace vrank::graph
