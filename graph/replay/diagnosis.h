// Why nothing moves: what each blocked rank waits for.
//
// Each is followed to its cause: from a host wait to the token or lane, from there
// through queues to the operation that lacks some of its members.
//
// Thread rule: one thread; const. No errors of its own: all it makes is text.

#ifndef VRANK_GRAPH_REPLAY_DIAGNOSIS_H_
#define VRANK_GRAPH_REPLAY_DIAGNOSIS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/replay/blocked_ranks.h"
#include "graph/replay/communicators.h"
#include "graph/replay/futures.h"
#include "graph/replay/inits.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/missing_members.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

template <class Step>
class Diagnosis {
 public:
  Diagnosis(uint32_t launch_queue_depth, const RankTable& ranks,
            const LaneQueues& queues, const Futures<Step>& futures,
            const Communicators<Step>& communicators, const Inits<Step>& inits)
      : launch_queue_depth_(launch_queue_depth),
        ranks_(ranks),
        queues_(queues),
        futures_(futures),
        communicators_(communicators),
        inits_(inits),
        missing_(ranks, communicators, inits) {}

  // As in Engine.
  std::vector<std::string> DescribeBlocked(size_t limit) const;

 private:
  using Undecided = typename Inits<Step>::Undecided;

  // These add the world ranks that are waited for to *awaited.
  std::string DescribeHost(const RankState& r, Awaited* awaited) const;
  std::string DescribeQueue(uint32_t queue, Awaited* awaited) const;
  std::string DescribeFuture(uint32_t future, Awaited* awaited) const;
  std::string DescribeCreation(const RankState& r, Awaited* awaited) const;
  // The rank's first lane whose end is not known; kNone: no lane.
  static uint32_t FirstPendingLane(const RankState& r);

  const uint32_t launch_queue_depth_;
  const RankTable& ranks_;
  const LaneQueues& queues_;
  const Futures<Step>& futures_;
  const Communicators<Step>& communicators_;
  const Inits<Step>& inits_;
  const MissingMembers<Step> missing_;
};

template <class Step>
std::vector<std::string> Diagnosis<Step>::DescribeBlocked(size_t limit) const {
  std::map<std::string, BlockedRanks> by_reason;
  Awaited awaited;
  for (const auto& r : ranks_.all()) {
    std::string reason = DescribeHost(*r, &awaited);
    if (reason.empty())
      continue;
    // Ranks that wait for the same thing wait for the same ranks.
    const auto [blocked, is_new] = by_reason.try_emplace(std::move(reason));
    blocked->second.ranks.push_back(r->world_rank);
    if (is_new)
      awaited.MoveTo(&blocked->second.awaited, &blocked->second.wants);
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
  std::vector<std::string> lines = LinesFromTheCauseOn(all, limit);
  if (std::string circle = DescribeCircle(all); !circle.empty())
    lines.insert(lines.begin(), "in a circle: " + circle);
  return lines;
}

// Empty where nothing blocks the rank.
template <class Step>
std::string Diagnosis<Step>::DescribeHost(const RankState& r, Awaited* awaited) const {
  const uint32_t pending = FirstPendingLane(r);
  switch (r.lost ? Blocked::kNo : r.blocked) {
    case Blocked::kNo:
    case Blocked::kProgram:
    case Blocked::kFolding:
    case Blocked::kPlayed:
      return "";
    case Blocked::kFinished:
      if (pending == kNone)
        return "";
      return fmt::format("the program has ended, but lane {} waits for {}", pending,
                         DescribeQueue(r.lanes[pending].queue, awaited));
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
      if (pending == kNone)
        return "host waits for room in the launch queue";
      return fmt::format("host waits for room in the launch queue ({} launches): {}",
                         launch_queue_depth_,
                         DescribeQueue(r.lanes[pending].queue, awaited));
    case Blocked::kCreation:
      return DescribeCreation(r, awaited);
    case Blocked::kForming:
      return fmt::format(
          "uses communicator {}, whose other members have not joined yet",
          r.next_op->a);
    case Blocked::kLeader:
      awaited->Add(r.options.leader);
      awaited->AddWant(fmt::format("creation of communicator {}", r.next_op->a),
                       {r.options.leader});
      return fmt::format("waits until its leader, rank {}, has created communicator {}",
                         r.options.leader, r.next_op->a);
  }
  return "";
}

template <class Step>
uint32_t Diagnosis<Step>::FirstPendingLane(const RankState& r) {
  for (uint32_t lane = 0; lane < r.lanes.size(); ++lane) {
    if (r.lanes[lane].queue != kNone)
      return lane;
  }
  return kNone;
}

template <class Step>
std::string Diagnosis<Step>::DescribeFuture(uint32_t future, Awaited* awaited) const {
  for (const Undecided& init : inits_.undecided()) {
    if (init.joiner.future == future)
      return missing_.OfInit(init, awaited);
  }
  return DescribeQueue(futures_[future].queue, awaited);
}

// What the head of a queue waits for, through other queues of its rank.
template <class Step>
std::string Diagnosis<Step>::DescribeQueue(uint32_t queue, Awaited* awaited) const {
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
      return missing_.OfTransfers(q, op, awaited);
    return awaited->At({0, local.played, op.number()}, [&] {
      return missing_.OfCollective(communicators_[local.played], op.number(), awaited);
    });
  }
}

template <class Step>
std::string Diagnosis<Step>::DescribeCreation(const RankState& r,
                                              Awaited* awaited) const {
  if (r.communicators[r.next_op->a].communicator != kNone)
    return missing_.OfCreation(r, awaited);
  for (const Undecided& init : inits_.undecided()) {
    if (init.joiner.rank == r.index && init.joiner.op == r.cursor)
      return missing_.OfInit(init, awaited);
  }
  return "";
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_DIAGNOSIS_H_
