// Why nothing moves in EngineImpl. Included by engine_impl.h.
//
// Each blocked rank is followed to its cause: from a host wait to the token or lane,
// from there through queues to the operation that has not all of its members.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_DIAGNOSTICS_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_DIAGNOSTICS_INL_H_

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

inline std::string Times(uint64_t count) {
  return count == 1 ? "once" : fmt::format("{} times", count);
}

template <class Step>
std::vector<std::string> EngineImpl<Step>::DescribeBlocked(size_t limit) {
  if (folding_ != nullptr && !error_.failed())
    Unfold();
  std::map<std::string, BlockedRanks> by_reason;
  Awaited awaited;
  for (const auto& r : ranks_.all()) {
    std::string reason = DescribeHost(*r, &awaited);
    if (reason.empty())
      continue;
    // Who waits for the same waits for the same ranks.
    const auto [blocked, is_new] = by_reason.try_emplace(std::move(reason));
    blocked->second.ranks.push_back(r->world_rank);
    if (is_new)
      awaited.MoveTo(&blocked->second.awaited);
    awaited.Forget();
  }
  std::vector<BlockedRanks> all;
  for (auto& [reason, blocked] : by_reason) {
    blocked.text = fmt::format("rank{} {}: {}", blocked.ranks.size() > 1 ? "s" : "",
                               RankList(blocked.ranks), reason);
    all.push_back(std::move(blocked));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.text.size(), a.text) < std::pair(b.text.size(), b.text);
  });
  return LinesFromTheCauseOn(all, limit);
}

// Empty where nothing blocks the rank.
template <class Step>
std::string EngineImpl<Step>::DescribeHost(const RankState& r, Awaited* awaited) const {
  switch (r.lost ? Blocked::kNo : r.blocked) {
    case Blocked::kNo:
    case Blocked::kProgram:
    case Blocked::kFolding:
    case Blocked::kPlayed:
      return "";
    case Blocked::kFinished:
      for (uint32_t lane = 0; lane < r.lanes.size(); ++lane) {
        if (r.lanes[lane].queue != kNone) {
          return fmt::format("the program has ended, but lane {} waits for {}", lane,
                             DescribeQueue(r.lanes[lane].queue, awaited));
        }
      }
      return "";
    case Blocked::kToken:
      return fmt::format("host waits for token {}: {}", r.next_op->a,
                         DescribeFuture(r.tokens[r.next_op->a].future, awaited));
    case Blocked::kLane:
      return fmt::format("host waits for lane {}: {}", r.next_op->lane,
                         DescribeQueue(r.lanes[r.next_op->lane].queue, awaited));
    case Blocked::kQuery:
      return r.next_op->kind == OpKind::kQueryToken
                 ? fmt::format("host asks for token {}: {}", r.next_op->a,
                               DescribeFuture(r.tokens[r.next_op->a].future, awaited))
                 : fmt::format("host asks for lane {}: {}", r.next_op->lane,
                               DescribeQueue(r.lanes[r.next_op->lane].queue, awaited));
    case Blocked::kRelease:
      return fmt::format(
          "host waits to release a communicator: {}",
          DescribeFuture(r.communicators[r.next_op->a].last_future, awaited));
    case Blocked::kLaunch:
      for (uint32_t lane = 0; lane < r.lanes.size(); ++lane) {
        if (r.lanes[lane].queue != kNone) {
          return fmt::format(
              "host waits for room in the launch queue ({} launches): {}",
              launch_queue_depth_, DescribeQueue(r.lanes[lane].queue, awaited));
        }
      }
      return "host waits for room in the launch queue";
    case Blocked::kCreation:
      return DescribeCreation(r, awaited);
    case Blocked::kForming:
      return fmt::format(
          "uses communicator {}, whose other members have not joined yet",
          r.next_op->a);
    case Blocked::kLeader:
      awaited->Add(r.options.leader);
      return fmt::format("waits until its leader, rank {}, has created communicator {}",
                         r.options.leader, r.next_op->a);
  }
  return "";
}

template <class Step>
std::string EngineImpl<Step>::DescribeFuture(uint32_t future, Awaited* awaited) const {
  for (const UndecidedInit& init : undecided_) {
    if (init.joiner.future == future)
      return DescribeUndecided(init, awaited);
  }
  return DescribeQueue(futures_[future].queue, awaited);
}

// What the head of a queue waits for, through other queues of its rank.
template <class Step>
std::string EngineImpl<Step>::DescribeQueue(uint32_t queue, Awaited* awaited) const {
  while (true) {
    if (queue == kNone)
      return "waits for a communicator whose other members have not joined yet";
    const LaneQueue& q = queues_[queue];
    const QueuedOp& op = q.ops[q.head];
    if (op.kind == OpKind::kWaitToken) {
      queue = futures_[op.future].queue;
      continue;
    }
    if (op.kind == OpKind::kHostFunc)
      return fmt::format("waits for a host function of rank {} that has not returned",
                         ranks_[q.rank].world_rank);
    if (q.meeting == LaneQueue::Meeting::kNotArrived) {
      queue = futures_[futures_[op.future].previous].queue;
      continue;
    }
    const LocalCommunicator& local = ranks_[q.rank].communicators[op.a];
    if (op.kind == OpKind::kTransfers)
      return DescribeTransfers(q, op, awaited);
    return awaited->At({0, local.played, op.number()}, [&] {
      return DescribeCollective(communicators_[local.played], op.number(), awaited);
    });
  }
}

template <class Step>
std::string EngineImpl<Step>::DescribeCollective(const Comm& c, uint32_t sequence,
                                                 Awaited* awaited) const {
  using Member = typename CollectiveRendezvous<Step>::Member;
  const auto& meeting = c.Collective(sequence);
  std::vector<uint32_t> missing;
  for (uint32_t i = 0; i < c.size(); ++i) {
    if (meeting.state(i) == Member::kExpected)
      missing.push_back(c.ranks[i]);
  }
  return fmt::format(
      "{} #{} of communicator '{}' ({} x {}); {} of {} members have not "
      "arrived: {}",
      Name(meeting.call().operation), sequence, c.identity, meeting.call().count,
      Name(meeting.call().type), missing.size(), c.size(),
      DescribeMissing(missing, awaited));
}

template <class Step>
std::string EngineImpl<Step>::DescribeTransfers(const LaneQueue& q, const QueuedOp& op,
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
    missing.push_back(c.ranks[peer]);
  }
  if (missing.empty())
    return fmt::format("transfers of communicator '{}'", c.identity);
  return fmt::format("transfers of communicator '{}': {} {} no match; not arrived: {}",
                     c.identity, text, missing.size() > 1 ? "have" : "has",
                     DescribeMissing(missing, awaited));
}

template <class Step>
std::string EngineImpl<Step>::DescribeUndecided(const UndecidedInit& init,
                                                Awaited* awaited) const {
  const RankState& r = ranks_[init.joiner.rank];
  const Creation& call = r.program->details().creations[init.joiner.details];
  std::vector<int32_t> missing, ended;
  std::string told = membership_->DescribeInit(CallerOf(init), call, &missing);
  for (const int32_t rank : missing) {
    const uint32_t index = ranks_.IndexOf(rank);
    if (index < ranks_.size() && ranks_[index].blocked == Blocked::kFinished)
      ended.push_back(rank);
  }
  awaited->Add(missing);
  if (told.empty())
    told = "the calls of others will tell who they are";
  if (!ended.empty())
    told += fmt::format(" (the program{} of {} {} ended)", ended.size() > 1 ? "s" : "",
                        RankList(ended), ended.size() > 1 ? "have" : "has");
  return fmt::format("joins a communicator of {} ranks as index {}; {}", call.ranks,
                     call.rank, told);
}

template <class Step>
std::string EngineImpl<Step>::DescribeCreation(const RankState& r,
                                               Awaited* awaited) const {
  const LocalCommunicator& local = r.communicators[r.next_op->a];
  if (local.communicator == kNone) {
    for (const UndecidedInit& init : undecided_) {
      if (init.joiner.rank == r.index && init.joiner.op == r.cursor)
        return DescribeUndecided(init, awaited);
    }
    return "";
  }
  const Comm& c = communicators_[local.communicator];
  const Creation& call = r.program->details().creations[r.next_op->b];
  const bool split = call.parent != 0;
  // Members of a window meet like those that pass no color.
  const bool makes_nothing =
      split && call.color == protocol::kNoColor && call.excluded.empty();
  const auto tell = [&] {
    const CreationMeeting& meeting = split ? c.Split(local.splits) : c.creation;
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < c.size(); ++i) {
      const bool is_left_out =
          std::binary_search(call.excluded.begin(), call.excluded.end(), i);
      if (!c.absent[i] && !is_left_out && meeting.joiners[i].rank == kNone)
        missing.push_back(c.ranks[i]);
    }
    const std::string what =
        makes_nothing
            ? fmt::format(
                  "meeting #{} of communicator '{}' (registration of a window, or "
                  "a split without a color)",
                  local.splits, c.identity)
        : split ? fmt::format("{} #{} of communicator '{}'",
                              call.excluded.empty() ? "split" : "shrink", local.splits,
                              c.identity)
                : fmt::format("creation of communicator '{}'", c.identity);
    return fmt::format("host waits for the {}; {} of {} members have not arrived: {}",
                       what, missing.size(), c.size(),
                       DescribeMissing(missing, awaited));
  };
  // Who leaves members out states them in a call of its own.
  if (!call.excluded.empty())
    return tell();
  const uint32_t kind = makes_nothing ? 1 : split ? 2 : 3;
  return awaited->At({kind, local.communicator, split ? local.splits : 0}, tell);
}

template <class Step>
void EngineImpl<Step>::FindUnmatched(const Comm& c,
                                     std::vector<UnmatchedSends>* found) {
  if (c.aborted)
    return;
  c.ForEachChannel(
      [&](uint32_t from, uint32_t to, const TransferChannel<Step>& channel) {
        if (const auto first = channel.FirstUnmatchedSend())
          found->push_back({c.identity, c.members[from], c.members[to], from, to,
                            first->sequence, first->bytes, channel.sent()});
      });
}

template <class Step>
absl::Status EngineImpl<Step>::CheckTransfersMatched() {
  std::vector<UnmatchedSends> all = unmatched_;
  if (folding_ != nullptr) {
    for (const Folding::Family& family : folding_->families) {
      if (!family.instances.empty())
        FindUnmatched(communicators_[family.instances[0]], &all);
    }
    if (all.empty())
      return absl::OkStatus();
    all = unmatched_;
    Unfold();
  }
  // Those that were dropped are empty.
  for (uint32_t i = 0; i < communicators_.taken(); ++i)
    FindUnmatched(communicators_[i], &all);
  if (all.empty())
    return absl::OkStatus();
  const UnmatchedSends& first = *std::min_element(all.begin(), all.end());
  const std::string others =
      all.size() == 1
          ? ""
          : fmt::format(" ({} more pairs of members have such)", all.size() - 1);
  return absl::InvalidArgumentError(fmt::format(
      "communicator '{}': send #{} from {} (index {}) to {} (index {}), {} bytes, has "
      "no receive: rank {} sends {}, rank {} receives from it {}, and its program has "
      "ended after {} ops{}; post the receive, or leave the send out",
      first.communicator, first.sequence, ranks_.Describe(first.from), first.from_index,
      ranks_.Describe(first.to), first.to_index, first.bytes, first.from,
      Times(first.sent), first.to, Times(first.sequence), result(first.to).ops,
      others));
}

template <class Step>
std::string EngineImpl<Step>::DescribeMissing(const std::vector<uint32_t>& ranks,
                                              Awaited* awaited) const {
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

#endif  // VRANK_GRAPH_REPLAY_ENGINE_DIAGNOSTICS_INL_H_
