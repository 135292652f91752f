// Which members an operation or a creation of a communicator still lacks, in words.
//
// Thread rule: one thread; const. No errors of its own: all it makes is text.

#ifndef VRANK_GRAPH_REPLAY_MISSING_MEMBERS_H_
#define VRANK_GRAPH_REPLAY_MISSING_MEMBERS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/replay/blocked_ranks.h"
#include "graph/replay/communicators.h"
#include "graph/replay/inits.h"
#include "graph/replay/lane.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

// Each adds the world ranks that are missing to *awaited.
template <class Step>
class MissingMembers {
 public:
  using Comm = Communicator<Step>;

  MissingMembers(const RankTable& ranks, const Communicators<Step>& communicators,
                 const Inits<Step>& inits)
      : ranks_(ranks), communicators_(communicators), inits_(inits) {}

  std::string OfCollective(const Comm& c, uint32_t sequence, Awaited* awaited) const;
  // `op`: at the head of the queue.
  std::string OfTransfers(const LaneQueue& q, const QueuedOp& op,
                          Awaited* awaited) const;
  std::string OfInit(const typename Inits<Step>::Undecided& init,
                     Awaited* awaited) const;
  // REQUIRES: the rank's host waits for a communicator whose members are known.
  std::string OfCreation(const RankState& r, Awaited* awaited) const;

 private:
  std::string AtCreation(const Comm& c, const LocalCommunicator& local,
                         const Creation& call, Awaited* awaited) const;
  // Members of a window meet like those that pass no color.
  static bool MakesNothing(const Creation& call) {
    return call.parent != 0 && call.color == protocol::kNoColor &&
           call.excluded.empty();
  }
  // `ranks`: indices. `what`: that they are missing at; empty: it is added already.
  std::string List(const std::vector<uint32_t>& ranks, Awaited* awaited,
                   const std::string& what = "") const;

  const RankTable& ranks_;
  const Communicators<Step>& communicators_;
  const Inits<Step>& inits_;
};

template <class Step>
std::string MissingMembers<Step>::OfCollective(const Comm& c, uint32_t sequence,
                                               Awaited* awaited) const {
  using Member = typename CollectiveRendezvous<Step>::Member;
  const auto& meeting = c.Collective(sequence);
  std::vector<uint32_t> missing;
  for (uint32_t i = 0; i < c.size(); ++i) {
    if (meeting.state(i) == Member::kExpected)
      missing.push_back(c.ranks[i]);
  }
  const std::string what =
      fmt::format("{} #{} of communicator '{}'", Name(meeting.call().operation),
                  sequence, c.identity);
  return fmt::format(
      "{} ({} x {}); {} of {} members have not "
      "arrived: {}",
      what, meeting.call().count, Name(meeting.call().type), missing.size(), c.size(),
      List(missing, awaited, what));
}

template <class Step>
std::string MissingMembers<Step>::OfTransfers(const LaneQueue& q, const QueuedOp& op,
                                              Awaited* awaited) const {
  constexpr size_t kShown = 4;
  const RankState& r = ranks_[q.rank];
  const LocalCommunicator& local = r.communicators[op.a];
  const Comm& c = communicators_[local.played];
  const auto& group = r.program->details().transfer_groups[op.b];
  std::string text;
  std::vector<uint32_t> missing;
  // By peer and direction, how many of the group are still to come: they have the
  // channel's last numbers.
  std::map<std::pair<uint32_t, bool>, uint64_t> left;
  for (const Transfer& transfer : group)
    ++left[{transfer.peer, transfer.is_send != 0}];
  for (const Transfer& transfer : group) {
    const uint32_t peer = PeerIndex(transfer, op.number(), c.size());
    const bool send = transfer.is_send != 0;
    const auto* channel =
        send ? c.FindChannel(local.place, peer) : c.FindChannel(peer, local.place);
    const uint64_t ours = send ? channel->sent() : channel->received();
    const uint64_t theirs = send ? channel->received() : channel->sent();
    const uint64_t sequence = ours - left[{transfer.peer, send}]--;
    if (theirs > sequence)
      continue;
    if (missing.size() < kShown) {
      text += fmt::format("{}{} #{} {} rank {} ({} bytes; that rank {} {})",
                          text.empty() ? "" : ", ", send ? "send" : "receive", sequence,
                          send ? "to" : "from", c.members[peer], transfer.bytes,
                          send ? "has received" : "has sent", Times(theirs));
    }
    if (missing.size() < kShown)
      awaited->AddWant(fmt::format("{} #{} of communicator '{}'",
                                   send ? "send" : "receive", sequence, c.identity),
                       {c.members[peer]});
    missing.push_back(c.ranks[peer]);
  }
  if (missing.empty())
    return fmt::format("transfers of communicator '{}'", c.identity);
  return fmt::format("transfers of communicator '{}': {} {} no match; not arrived: {}",
                     c.identity, text, missing.size() > 1 ? "have" : "has",
                     List(missing, awaited));
}

template <class Step>
std::string MissingMembers<Step>::OfInit(const typename Inits<Step>::Undecided& init,
                                         Awaited* awaited) const {
  const Creation& call = inits_.CallOf(init);
  std::vector<int32_t> missing, ended;
  std::string told = inits_.Describe(init, &missing);
  for (const int32_t rank : missing) {
    const uint32_t index = ranks_.IndexOf(rank);
    if (index < ranks_.size() && ranks_[index].blocked == Blocked::kFinished)
      ended.push_back(rank);
  }
  awaited->Add(missing);
  awaited->AddWant("creation of a communicator", missing);
  if (told.empty())
    told = "the calls of others will tell who they are";
  if (!ended.empty())
    told += fmt::format(" (the program{} of {} {} ended)", ended.size() > 1 ? "s" : "",
                        RankList(ended), ended.size() > 1 ? "have" : "has");
  return fmt::format("joins a communicator of {} ranks as index {}; {}", call.ranks,
                     call.rank, told);
}

template <class Step>
std::string MissingMembers<Step>::OfCreation(const RankState& r,
                                             Awaited* awaited) const {
  const LocalCommunicator& local = r.communicators[r.next_op->a];
  const Comm& c = communicators_[local.communicator];
  const Creation& call = r.program->details().creations[r.next_op->b];
  const auto describe = [&] { return AtCreation(c, local, call, awaited); };
  // A member that leaves others out states them in a call of its own.
  if (!call.excluded.empty())
    return describe();
  const bool split = call.parent != 0;
  const uint32_t kind = MakesNothing(call) ? 1 : split ? 2 : 3;
  return awaited->At({kind, local.communicator, split ? local.splits : 0}, describe);
}

template <class Step>
std::string MissingMembers<Step>::AtCreation(const Comm& c,
                                             const LocalCommunicator& local,
                                             const Creation& call,
                                             Awaited* awaited) const {
  const bool split = call.parent != 0;
  const CreationMeeting& meeting = split ? c.Split(local.splits) : c.creation;
  std::vector<uint32_t> missing;
  for (uint32_t i = 0; i < c.size(); ++i) {
    const bool is_left_out =
        std::binary_search(call.excluded.begin(), call.excluded.end(), i);
    if (!c.absent[i] && !is_left_out && meeting.joiners[i].rank == kNone)
      missing.push_back(c.ranks[i]);
  }
  const std::string what =
      MakesNothing(call)
          ? fmt::format(
                "meeting #{} of communicator '{}' (registration of a window, or "
                "a split without a color)",
                local.splits, c.identity)
      : split ? fmt::format("{} #{} of communicator '{}'",
                            call.excluded.empty() ? "split" : "shrink", local.splits,
                            c.identity)
              : fmt::format("creation of communicator '{}'", c.identity);
  return fmt::format("host waits for the {}; {} of {} members have not arrived: {}",
                     what, missing.size(), c.size(), List(missing, awaited, what));
}

template <class Step>
std::string MissingMembers<Step>::List(const std::vector<uint32_t>& ranks,
                                       Awaited* awaited,
                                       const std::string& what) const {
  std::vector<int32_t> world_ranks;
  std::vector<int32_t> ended;
  for (const uint32_t rank : std::set<uint32_t>(ranks.begin(), ranks.end())) {
    if (rank == kNone)
      continue;
    const RankState& r = ranks_[rank];
    world_ranks.push_back(r.world_rank);
    if (r.lost || (r.blocked == Blocked::kFinished && r.queued == 0))
      ended.push_back(r.world_rank);
  }
  awaited->Add(world_ranks);
  if (!what.empty())
    awaited->AddWant(what, world_ranks);
  const auto list = [](const std::vector<int32_t>& which) {
    return fmt::format("rank{} {}", which.size() > 1 ? "s" : "", RankList(which));
  };
  if (world_ranks.empty())
    return "none";
  std::string text = list(world_ranks);
  if (ended == world_ranks)
    text +=
        ended.size() > 1 ? " (their programs have ended)" : " (its program has ended)";
  else if (!ended.empty())
    text += fmt::format(" (the program of {} has ended)", list(ended));
  return text;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_MISSING_MEMBERS_H_
