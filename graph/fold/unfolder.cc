// See unfolder.h.

#include "graph/fold/unfolder.h"

namespace vrank::graph {

Unfolder::Unfolder(const ResolvedJob* job, Quotient* quotient, EngineObserver* ranges,
                   EngineObserver* operations, EngineObserver* played)
    : job_(job),
      quotient_(quotient),
      ranges_(ranges),
      operations_(operations),
      played_(played),
      members_of_(operations == nullptr ? 0 : job->instances.size()) {
  if (ranges == nullptr && operations == nullptr)
    return;
  ranks_of_.resize(quotient->colouring().colours);
  for (uint32_t rank = 0; rank < quotient->colouring().colour.size(); ++rank)
    ranks_of_[quotient->colouring().colour[rank]].push_back(rank);
}

void Unfolder::OnRange(int32_t rank, uint32_t name, bool begin, Stamp host) {
  if (played_ != nullptr)
    played_->OnRange(rank, name, begin, host);
  if (ranges_ == nullptr)
    return;
  for (const uint32_t same : ranks_of_[quotient_->ColourOf(rank)])
    ranges_->OnRange(WorldRank(same), name, begin, host);
}

std::vector<Unfolder::Member>& Unfolder::StandingFor(
    const QuotientCommunicator& communicator, uint32_t place) {
  auto& by_place = standing_[&communicator];
  if (by_place.empty()) {
    by_place.resize(communicator.members.size());
    for (const uint32_t i : communicator.standing) {
      const std::vector<Label> labels =
          LabelsOf(job_->instances[i], quotient_->colouring());
      for (uint32_t m = 0; m < labels.size(); ++m)
        by_place[communicator.PlaceOf(labels[m])].push_back({i, m, {}});
    }
  }
  return by_place[place];
}

uint32_t Unfolder::RealPeer(const QuotientCommunicator& communicator, uint32_t place,
                            bool is_send, Member& member) const {
  if (member.peers.empty()) {
    const CommunicatorInstance& instance = job_->instances[member.instance];
    const uint32_t rank = instance.members[member.index];
    const uint32_t number = instance.numbers[member.index];
    for (const Transfer& transfer :
         job_->UseOf(rank).communicators.at(number).transfers) {
      const uint32_t peer = PeerOf(*job_, rank, number, transfer);
      const Label label = LabelOf(instance, peer, quotient_->colouring());
      member.peers[{communicator.PlaceOf(label), transfer.is_send != 0}] = peer;
    }
  }
  return member.peers[{place, is_send}];
}

const std::vector<int32_t>& Unfolder::MembersOf(uint32_t instance) {
  std::vector<int32_t>& ranks = members_of_[instance];
  if (ranks.empty())
    for (const uint32_t member : job_->instances[instance].members)
      ranks.push_back(WorldRank(member));
  return ranks;
}

void Unfolder::OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                               uint32_t member, int32_t rank,
                               const CollectiveCall& call, Stamp arrival, Stamp end) {
  if (played_ != nullptr) {
    played_->OnCollectiveEnd(communicator, sequence, member, rank, call, arrival, end);
  }
  if (operations_ == nullptr)
    return;
  for (const Member& same : StandingFor(quotient_->ByIdentity(communicator), member)) {
    const CommunicatorInstance& instance = job_->instances[same.instance];
    const CollectiveCall& real =
        job_->foldable ? job_->sequences[instance.sequence][sequence] : call;
    operations_->OnCollectiveEnd(instance.identity, sequence, same.index,
                                 WorldRank(instance.members[same.index]), real, arrival,
                                 end);
  }
}

void Unfolder::OnTransferEnd(const std::string& communicator, uint32_t from,
                             uint32_t to, uint32_t sequence, uint64_t bytes,
                             bool is_send, int32_t rank, Stamp arrival, Stamp end) {
  if (played_ != nullptr) {
    played_->OnTransferEnd(communicator, from, to, sequence, bytes, is_send, rank,
                           arrival, end);
  }
  if (operations_ == nullptr)
    return;
  const QuotientCommunicator& quotient = quotient_->ByIdentity(communicator);
  const uint32_t own = is_send ? from : to;
  const uint32_t other = is_send ? to : from;
  for (Member& same : StandingFor(quotient, own)) {
    const CommunicatorInstance& instance = job_->instances[same.instance];
    const uint32_t peer = RealPeer(quotient, other, is_send, same);
    operations_->OnTransferEnd(instance.identity, is_send ? same.index : peer,
                               is_send ? peer : same.index, sequence, bytes, is_send,
                               WorldRank(instance.members[same.index]), arrival, end);
  }
}

void Unfolder::OnCommunicator(int32_t rank, uint32_t number,
                              const std::string& identity,
                              std::span<const int32_t> members, uint32_t index) {
  quotient_->NoteIdentity(rank, number, identity);
  if (played_ != nullptr)
    played_->OnCommunicator(rank, number, identity, members, index);
  if (operations_ == nullptr)
    return;
  for (const uint32_t same : ranks_of_[quotient_->ColourOf(rank)]) {
    const auto binding = job_->bindings[same].find(number);
    if (binding == job_->bindings[same].end())
      continue;
    const uint32_t instance = binding->second.instance;
    operations_->OnCommunicator(WorldRank(same), number,
                                job_->instances[instance].identity, MembersOf(instance),
                                binding->second.index);
  }
}

}  // namespace vrank::graph
