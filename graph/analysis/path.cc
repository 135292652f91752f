// See path.h. Each function mirrors one rule of step.h, backwards.

#include "graph/analysis/path.h"

#include <algorithm>

namespace vrank::graph {
namespace {

using Member = uint32_t;

// The members that a member's end depends on, in the order in which ties are decided
// (collective_rendezvous.h).
std::vector<Member> DependsOn(const CollectiveCall& call, Member own, uint32_t size) {
  std::vector<Member> members;
  switch (call.operation) {
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce: {
      const uint32_t start = call.operation == CollectiveKind::kReduce
                                 ? (call.root + 1) % size
                                 : call.root % size;
      const uint32_t place = (own + size - start) % size;
      for (uint32_t p = 0; p <= place + 1 && p < size; ++p)
        members.push_back((start + p) % size);
      return members;
    }
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      if (own != call.root) {
        members = {std::min(own, call.root), std::max(own, call.root)};
        return members;
      }
      [[fallthrough]];
    default:
      for (uint32_t i = 0; i < size; ++i)
        members.push_back(i);
      return members;
  }
}

Communication ExplainCollective(const Timeline& timeline, const OpPlace& at) {
  const PlayedRank& rank = timeline.ranks()[at.rank];
  const Op& op = timeline.OpAt(at);
  const auto [place, own] = rank.communicators.at(op.a);
  const TimelineCommunicator& communicator = timeline.communicators()[place];
  const CollectiveCall& call = rank.program->details().collectives[op.b];
  const auto& members =
      communicator.collectives[static_cast<size_t>(rank.before[at.op].sequence)];
  Communication found;
  found.source = timeline.network().Collective(call, communicator.names).source;
  found.ready_ns = -1;
  for (const Member member :
       DependsOn(call, own, static_cast<uint32_t>(members.size()))) {
    const int64_t arrival = timeline.TimesAt(members[member]).begin;
    if (arrival > found.ready_ns) {
      found.ready_ns = arrival;
      found.last = found.other = members[member];
    }
  }
  return found;
}

// Number of the `nth` transfer of an op on a channel: how many came before it.
uint32_t NumberOn(const std::vector<OpPlace>& transfers, uint32_t op, uint32_t nth) {
  const auto first = std::lower_bound(
      transfers.begin(), transfers.end(), op,
      [](const OpPlace& at, uint32_t wanted) { return at.op < wanted; });
  return static_cast<uint32_t>(first - transfers.begin()) + nth;
}

// The `nth` transfer of an op on a channel, on the side that it is on.
const Transfer& TransferOf(const Timeline& timeline, const OpPlace& at,
                           std::pair<uint32_t, uint32_t> key, bool is_send,
                           uint32_t nth) {
  const Op& op = timeline.OpAt(at);
  const auto& group =
      timeline.ranks()[at.rank].program->details().transfer_groups[op.b];
  const uint32_t peer = is_send ? key.second : key.first;
  const Transfer* found = &group.front();
  for (const Transfer& transfer : group) {
    if (timeline.PeerOf(at.rank, op.a, transfer) != peer ||
        (transfer.is_send != 0) != is_send)
      continue;
    found = &transfer;
    if (nth-- == 0)
      break;
  }
  return *found;
}

// One transfer's end: its own arrival, the other side's, or credit that came back.
Communication ExplainTransfer(const Timeline& timeline, const OpPlace& at,
                              uint32_t place, std::pair<uint32_t, uint32_t> key,
                              uint32_t number, const Transfer& transfer) {
  const TimelineCommunicator& communicator = timeline.communicators()[place];
  const auto& channel = communicator.channels.at(key);
  const Cost cost = timeline.network().Transfer(
      transfer.bytes, communicator.names[key.first], communicator.names[key.second]);
  Communication found;
  found.is_transfer = true;
  found.is_send = transfer.is_send != 0;
  found.source = cost.source;
  const auto& own_ends = found.is_send ? channel.send_ends : channel.receive_ends;
  found.ready_ns = own_ends[number] - cost.duration.nanoseconds();
  found.last = found.other = at;
  const auto& others = found.is_send ? channel.receives : channel.sends;
  if (number < others.size())
    found.other = others[number];
  if (timeline.TimesAt(at).begin == found.ready_ns)
    return found;
  // What fits into the credit goes without its receiver (transfer_channel.h).
  const uint64_t credit = timeline.network().TransferCreditBytes(
      communicator.names[key.first], communicator.names[key.second]);
  const bool needs_other = !found.is_send || transfer.bytes > credit;
  if (needs_other && number < others.size() &&
      timeline.TimesAt(others[number]).begin == found.ready_ns) {
    found.last = others[number];
    return found;
  }
  uint64_t on_the_way = transfer.bytes;
  for (uint32_t earlier = number; earlier-- > 0;) {
    on_the_way += channel.bytes[earlier];
    if (on_the_way <= credit)
      continue;
    if (earlier >= channel.receives.size())
      break;
    found.last = channel.receives[earlier];
    found.after_receive = true;
    found.communicator = place;
    found.channel = key;
    found.receive = earlier;
    break;
  }
  return found;
}

Communication ExplainReceive(const Timeline& timeline, const Communication& waits) {
  const auto& receives =
      timeline.communicators()[waits.communicator].channels.at(waits.channel).receives;
  const OpPlace at = receives[waits.receive];
  const uint32_t nth = waits.receive - NumberOn(receives, at.op, 0);
  return ExplainTransfer(timeline, at, waits.communicator, waits.channel, waits.receive,
                         TransferOf(timeline, at, waits.channel, false, nth));
}

}  // namespace

std::optional<Communication> Explain(const Timeline& timeline, const OpPlace& at) {
  const Op& op = timeline.OpAt(at);
  if (op.kind == OpKind::kWork)
    return std::nullopt;
  if (op.kind == OpKind::kCollective)
    return ExplainCollective(timeline, at);
  const PlayedRank& rank = timeline.ranks()[at.rank];
  const auto [place, own] = rank.communicators.at(op.a);
  const TimelineCommunicator& communicator = timeline.communicators()[place];
  // On a tie the first transfer of the group (OperationEnds::EndTransfer).
  std::map<std::pair<std::pair<uint32_t, uint32_t>, bool>, uint32_t> nth;
  for (const Transfer& transfer : rank.program->details().transfer_groups[op.b]) {
    const bool send = transfer.is_send != 0;
    const uint32_t peer = timeline.PeerOf(at.rank, op.a, transfer);
    const std::pair key(send ? own : peer, send ? peer : own);
    const auto& channel = communicator.channels.at(key);
    const uint32_t number =
        NumberOn(send ? channel.sends : channel.receives, at.op, nth[{key, send}]++);
    if ((send ? channel.send_ends : channel.receive_ends)[number] ==
        timeline.TimesAt(at).end)
      return ExplainTransfer(timeline, at, place, key, number, transfer);
  }
  return std::nullopt;
}

std::vector<PathSegment> PathWalk::FromPassed(OpPlace at, int64_t stop_ns) const {
  return Walk({Point::kPassed, at, timeline_->TimesAt(at).passed}, stop_ns);
}

std::vector<PathSegment> PathWalk::FromBegin(OpPlace at, int64_t stop_ns) const {
  return Walk({Point::kBegin, at, timeline_->TimesAt(at).begin}, stop_ns);
}

std::vector<PathSegment> PathWalk::FromEnd(OpPlace at, int64_t stop_ns) const {
  return Walk({Point::kEnd, at, timeline_->TimesAt(at).end}, stop_ns);
}

std::vector<PathSegment> PathWalk::Walk(State state, int64_t stop_ns) const {
  std::vector<PathSegment> path;
  // Every step leads to what was earlier in an order of all that happened, so there are
  // no more than points. That order is not looked at here: times alone are.
  uint64_t steps = 0;
  for (const PlayedRank& rank : timeline_->ranks())
    steps += 4 * rank.times.size();
  while (state.ns > stop_ns) {
    if (steps-- == 0)
      state.point = Point::kNowhere;
    switch (state.point) {
      case Point::kPassed:
        state = BeforePassed(state, path);
        break;
      case Point::kReached:
        state = BeforeReached(state, path);
        break;
      case Point::kBegin:
        state = BeforeBegin(state, path);
        break;
      case Point::kEnd:
        state = BeforeEnd(state, path);
        break;
      case Point::kNowhere:
        path.push_back({PathKind::kBefore, state.at, stop_ns, state.ns});
        state.ns = stop_ns;
        break;
    }
  }
  // Points in time are no segments; the last one is cut.
  std::erase_if(path, [](const PathSegment& s) { return s.length_ns() == 0; });
  if (!path.empty())
    path.back().begin_ns = std::max(path.back().begin_ns, stop_ns);
  return path;
}

PathWalk::State PathWalk::EndOf(const State& s, int32_t op) const {
  if (op < 0)
    return {Point::kNowhere, s.at, s.ns};
  return {Point::kEnd, {s.at.rank, static_cast<uint32_t>(op)}, s.ns};
}

PathWalk::State PathWalk::BeforePassed(const State& s,
                                       std::vector<PathSegment>& path) const {
  const OpTimes& times = timeline_->TimesAt(s.at);
  const Op& op = timeline_->OpAt(s.at);
  const OpBefore& before = timeline_->ranks()[s.at.rank].before[s.at.op];
  if (times.passed == times.reached)
    return {Point::kReached, s.at, s.ns};
  const auto& ops = timeline_->ranks()[s.at.rank].times;
  int32_t target = -1;
  switch (op.kind) {
    case OpKind::kCreateCommunicator:
      return BeforeCreation(s, path);
    case OpKind::kHostWaitToken:
    case OpKind::kPollToken:
      target = before.token;
      break;
    case OpKind::kHostWaitLane:
    case OpKind::kPollLane:
      target = before.on_lane;
      break;
    case OpKind::kReleaseCommunicator:
      target = before.on_communicator;
      break;
    default:
      break;
  }
  if (target >= 0) {
    const int64_t end = ops[static_cast<size_t>(target)].end;
    const int64_t free =
        before.launch < 0
            ? times.reached
            : std::max(times.reached, ops[static_cast<size_t>(before.launch)].end);
    if (end > free) {
      path.push_back({PathKind::kPoll, s.at, end, s.ns, op.source});
      return EndOf({s.point, s.at, end}, target);
    }
  }
  return EndOf(s, before.launch);
}

PathWalk::State PathWalk::BeforeCreation(const State& s,
                                         std::vector<PathSegment>& path) const {
  const OpTimes& times = timeline_->TimesAt(s.at);
  if (!across_ranks_) {
    path.push_back({PathKind::kCreation, s.at, times.reached, s.ns, Source::kAssumed});
    return {Point::kReached, s.at, times.reached};
  }
  const PlayedRank& rank = timeline_->ranks()[s.at.rank];
  const Op& op = timeline_->OpAt(s.at);
  const uint32_t parent = rank.program->details().creations[op.b].parent;
  const auto met = rank.communicators.find(parent == 0 ? op.a : parent);
  OpPlace latest = s.at;
  if (met != rank.communicators.end()) {
    const auto& meetings = timeline_->communicators()[met->second.first].meetings;
    for (const OpPlace& joined :
         meetings.at(static_cast<uint32_t>(rank.before[s.at.op].sequence))) {
      if (timeline_->TimesAt(joined).reached > timeline_->TimesAt(latest).reached)
        latest = joined;
    }
  }
  const int64_t from = timeline_->TimesAt(latest).reached;
  path.push_back({PathKind::kCreation, s.at, from, s.ns, Source::kAssumed});
  return {Point::kReached, latest, from};
}

PathWalk::State PathWalk::BeforeReached(const State& s,
                                        std::vector<PathSegment>& path) const {
  const Op& op = timeline_->OpAt(s.at);
  if (s.at.op == 0) {
    path.push_back({PathKind::kHost, s.at, s.ns - op.host_ns, s.ns, op.host_source});
    return {Point::kNowhere, s.at, s.ns - op.host_ns};
  }
  const OpPlace previous{s.at.rank, s.at.op - 1};
  const int64_t from = timeline_->TimesAt(previous).passed;
  path.push_back({PathKind::kHost, s.at, from, s.ns, op.host_source});
  return {Point::kPassed, previous, from};
}

// Step::Start and Step::Arrival: own lane, then own host, then the communicator.
PathWalk::State PathWalk::BeforeBegin(const State& s,
                                      std::vector<PathSegment>& path) const {
  const PlayedRank& rank = timeline_->ranks()[s.at.rank];
  const OpBefore& before = rank.before[s.at.op];
  if (before.on_lane >= 0 &&
      rank.times[static_cast<size_t>(before.on_lane)].end == s.ns)
    return EndOf(s, before.on_lane);
  const int64_t host = rank.times[s.at.op].passed;
  if (host + timeline_->latency_ns() == s.ns) {
    path.push_back({PathKind::kLatency, s.at, host, s.ns, Source::kAssumed});
    return {Point::kPassed, s.at, host};
  }
  return EndOf(s, before.on_communicator);
}

namespace {

PathKind KindOf(const PlayedRank& rank, const Op& op) {
  if (op.kind == OpKind::kHostFunc)
    return rank.Named(op).is_unexplained ? PathKind::kUnexplained : PathKind::kWork;
  return rank.CommunicationOf(op).empty() ? PathKind::kWork : PathKind::kCommunication;
}

}  // namespace

PathWalk::State PathWalk::BeforeEnd(const State& s,
                                    std::vector<PathSegment>& path) const {
  const OpTimes& times = timeline_->TimesAt(s.at);
  const Op& op = timeline_->OpAt(s.at);
  const PlayedRank& rank = timeline_->ranks()[s.at.rank];
  const OpBefore& before = rank.before[s.at.op];
  switch (op.kind) {
    case OpKind::kWaitToken:
      if (before.on_lane >= 0 &&
          rank.times[static_cast<size_t>(before.on_lane)].end == s.ns)
        return EndOf(s, before.on_lane);
      return EndOf(s, before.token);
    case OpKind::kCollective:
    case OpKind::kTransfers:
      return BeforeCommunication(s, path);
    default:
      path.push_back({KindOf(rank, op), s.at, times.begin, s.ns, op.source});
      return {Point::kBegin, s.at, times.begin};
  }
}

PathWalk::State PathWalk::BeforeCommunication(const State& s,
                                              std::vector<PathSegment>& path) const {
  const OpTimes& times = timeline_->TimesAt(s.at);
  auto found = Explain(*timeline_, s.at);
  const Source source = found ? found->source : Source::kModelled;
  if (!across_ranks_ || !found) {
    path.push_back({PathKind::kCommunication, s.at, times.begin, s.ns, source});
    return {Point::kBegin, s.at, times.begin};
  }
  path.push_back({PathKind::kCommunication, s.at, found->ready_ns, s.ns, source});
  // An earlier receive may end before the group that it is part of.
  while (found->after_receive) {
    const OpPlace receive = found->last;
    const int64_t end = found->ready_ns;
    found = ExplainReceive(*timeline_, *found);
    path.push_back(
        {PathKind::kCommunication, receive, found->ready_ns, end, found->source});
  }
  return {Point::kBegin, found->last, found->ready_ns};
}

}  // namespace vrank::graph
