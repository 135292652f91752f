// See unfolder.h.

#include "graph/fold/unfolder.h"

namespace vrank::graph {

Unfolder::Unfolder(const ResolvedJob* job, Quotient* quotient,
                   EngineObserver* every_rank, EngineObserver* played)
    : job_(job), quotient_(quotient), every_rank_(every_rank), played_(played) {
  if (every_rank == nullptr)
    return;
  ranks_of_.resize(quotient->colouring().colours);
  for (uint32_t rank = 0; rank < quotient->colouring().colour.size(); ++rank)
    ranks_of_[quotient->colouring().colour[rank]].push_back(rank);
}

void Unfolder::OnRange(int32_t rank, uint32_t name, bool begin, Stamp host) {
  if (played_ != nullptr)
    played_->OnRange(rank, name, begin, host);
  if (every_rank_ == nullptr)
    return;
  for (const uint32_t same : ranks_of_[quotient_->ColourOf(rank)])
    every_rank_->OnRange(WorldRank(same), name, begin, host);
}

const std::vector<Unfolder::Member>& Unfolder::StandingFor(
    const QuotientCommunicator& communicator, uint32_t place) {
  auto& by_place = standing_[&communicator];
  if (by_place.empty()) {
    by_place.resize(communicator.members.size());
    for (const uint32_t i : communicator.standing) {
      const std::vector<Label> labels =
          LabelsOf(job_->instances[i], quotient_->colouring());
      for (uint32_t m = 0; m < labels.size(); ++m)
        by_place[communicator.PlaceOf(labels[m])].push_back({i, m});
    }
  }
  return by_place[place];
}

uint32_t Unfolder::RealPeer(const QuotientCommunicator& communicator,
                            const Member& member, uint32_t place, bool is_send) {
  const CommunicatorInstance& instance = job_->instances[member.instance];
  if (!peers_known_[{member.instance, member.index}]) {
    peers_known_[{member.instance, member.index}] = true;
    const std::vector<Label> labels = LabelsOf(instance, quotient_->colouring());
    const uint32_t rank = instance.members[member.index];
    const uint32_t number = instance.numbers[member.index];
    for (const Transfer& transfer :
         job_->UseOf(rank).communicators.at(number).transfers) {
      const uint32_t peer = PeerOf(*job_, rank, number, transfer);
      peers_[{member.instance, member.index, communicator.PlaceOf(labels[peer]),
              transfer.is_send != 0}] = peer;
    }
  }
  return peers_[{member.instance, member.index, place, is_send}];
}

void Unfolder::OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                               uint32_t member, int32_t rank,
                               const CollectiveCall& call, Stamp arrival, Stamp end) {
  if (played_ != nullptr) {
    played_->OnCollectiveEnd(communicator, sequence, member, rank, call, arrival, end);
  }
  if (every_rank_ == nullptr)
    return;
  for (const Member& same : StandingFor(quotient_->ByIdentity(communicator), member)) {
    const CommunicatorInstance& instance = job_->instances[same.instance];
    const CollectiveCall& real =
        job_->foldable ? job_->sequences[instance.sequence][sequence] : call;
    every_rank_->OnCollectiveEnd(instance.identity, sequence, same.index,
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
  if (every_rank_ == nullptr)
    return;
  const QuotientCommunicator& quotient = quotient_->ByIdentity(communicator);
  const uint32_t own = is_send ? from : to;
  const uint32_t other = is_send ? to : from;
  for (const Member& same : StandingFor(quotient, own)) {
    const CommunicatorInstance& instance = job_->instances[same.instance];
    const uint32_t peer = RealPeer(quotient, same, other, is_send);
    every_rank_->OnTransferEnd(instance.identity, is_send ? same.index : peer,
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
  if (every_rank_ == nullptr)
    return;
  for (const uint32_t same : ranks_of_[quotient_->ColourOf(rank)]) {
    const auto binding = job_->bindings[same].find(number);
    if (binding == job_->bindings[same].end())
      continue;
    const CommunicatorInstance& instance = job_->instances[binding->second.instance];
    std::vector<int32_t> ranks;
    for (const uint32_t member : instance.members)
      ranks.push_back(WorldRank(member));
    every_rank_->OnCommunicator(WorldRank(same), number, instance.identity, ranks,
                                binding->second.index);
  }
}

}  // namespace vrank::graph
