// See oracle.h. Index() notes who comes before whom; the rest is the definition.

#include "tests/graph/replay/oracle.h"

#include <algorithm>

namespace vrank::graph {
namespace {

// Does the end of member `i` depend on the arrival of member `k`, of `n`?
bool DependsOn(const CollectiveCall& call, uint32_t n, uint32_t i, uint32_t k) {
  switch (call.operation) {
    case CollectiveKind::kBroadcast:
      return (k + n - call.root) % n <= (i + n - call.root) % n + 1;
    case CollectiveKind::kReduce:
      return (k + n - call.root - 1) % n <= (i + n - call.root - 1) % n + 1;
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      return i == call.root || k == i || k == call.root;
    default:
      return true;
  }
}

}  // namespace

Oracle::Oracle(const Job& job, const NetworkModel& network)
    : job_(job), network_(network) {
  places_.resize(job.programs.size());
  for (int rank = 0; rank < static_cast<int>(job.programs.size()); ++rank)
    Index(rank);
}

void Oracle::Index(int rank) {
  std::map<uint32_t, int> lanes, tokens, communicators, collectives, splits;
  std::vector<int> launches;
  const int size = static_cast<int>(job_.programs[static_cast<size_t>(rank)]->size());
  auto& places = places_[static_cast<size_t>(rank)];
  places.resize(static_cast<size_t>(size));
  const auto last = [](const std::map<uint32_t, int>& of, uint32_t key) {
    const auto it = of.find(key);
    return it == of.end() ? -1 : it->second;
  };
  for (int i = 0; i < size; ++i) {
    const Op& op = At(rank, i);
    Place& place = places[static_cast<size_t>(i)];
    place.before_on_lane = last(lanes, op.lane);
    place.token = last(tokens, op.a);
    place.before_on_communicator = last(communicators, op.a);
    if (op.launch != 0) {
      const int before =
          static_cast<int>(launches.size()) - static_cast<int>(job_.launch_queue_depth);
      place.launch_before = before < 0 ? -1 : launches[static_cast<size_t>(before)];
      launches.push_back(i);
    }
    if (op.kind == OpKind::kWork || op.kind == OpKind::kWaitToken ||
        op.kind == OpKind::kHostFunc || op.kind == OpKind::kCollective ||
        op.kind == OpKind::kTransfers)
      lanes[op.lane] = i;
    if (op.kind == OpKind::kReleaseLane)
      lanes.erase(op.lane);
    if (op.kind == OpKind::kRecordToken)
      tokens[op.a] = i;
    if (op.kind == OpKind::kCollective || op.kind == OpKind::kTransfers) {
      communicators[op.a] = i;
      const auto [group, index] = job_.communicators.at({rank, op.a});
      if (op.kind == OpKind::kCollective) {
        place.sequence = collectives[op.a]++;
        collectives_[{group, place.sequence, index}] = i;
        continue;
      }
      uint32_t in_group = 0;
      for (const Transfer& t : DetailsOf(rank).transfer_groups[op.b]) {
        Channel& channel = t.is_send ? channels_[{group, index, t.peer}]
                                     : channels_[{group, t.peer, index}];
        auto& halves = t.is_send ? channel.sends : channel.receives;
        numbers_[{rank, i, in_group++}] = static_cast<int>(halves.size());
        halves.push_back({rank, i, t.bytes});
      }
    }
    if (op.kind == OpKind::kCreateCommunicator && !Absent(rank)) {
      const Creation& call = DetailsOf(rank).creations[op.b];
      if (call.parent == 0) {
        creations_[{-1 - job_.communicators.at({rank, op.a}).first, 0}].push_back(
            {rank, i});
      } else {
        place.sequence = splits[call.parent]++;
        const int parent = job_.communicators.at({rank, call.parent}).first;
        creations_[{parent, place.sequence}].push_back({rank, i});
      }
    }
  }
}

int64_t Oracle::LaneBefore(int rank, int op) {
  const int before = PlaceOf(rank, op).before_on_lane;
  return before < 0 ? 0 : End(rank, before);
}

int64_t Oracle::HostBefore(int rank, int i) {
  const int64_t host = (i == 0 ? 0 : HostAfter(rank, i - 1)) + At(rank, i).host_ns;
  const int launch = PlaceOf(rank, i).launch_before;
  return launch < 0 ? host : std::max(host, End(rank, launch));
}

int64_t Oracle::TargetEnd(int rank, int i) {
  const Op& op = At(rank, i);
  const Place& place = PlaceOf(rank, i);
  if (op.kind == OpKind::kReleaseCommunicator)
    return place.before_on_communicator < 0 ? 0
                                            : End(rank, place.before_on_communicator);
  const bool token = op.kind == OpKind::kHostWaitToken ||
                     op.kind == OpKind::kPollToken || op.kind == OpKind::kQueryToken;
  const int target = token ? place.token : place.before_on_lane;
  return target < 0 ? 0 : End(rank, target);
}

int64_t Oracle::HostAfter(int rank, int i) {
  const auto [memo, added] = memo_.try_emplace({'h', rank, i}, 0);
  if (!added)
    return memo->second;
  const Op& op = At(rank, i);
  const int64_t host = HostBefore(rank, i);
  int64_t after = host;
  if (op.kind == OpKind::kHostWaitToken || op.kind == OpKind::kHostWaitLane ||
      op.kind == OpKind::kReleaseCommunicator)
    after = std::max(host, TargetEnd(rank, i));
  if (op.kind == OpKind::kPollToken || op.kind == OpKind::kPollLane) {
    while (after < TargetEnd(rank, i))
      after += op.value;
  }
  if (op.kind == OpKind::kCreateCommunicator)
    after = CreationEnd(rank, i);
  return memo_[{'h', rank, i}] = after;
}

int64_t Oracle::CreationEnd(int rank, int i) {
  const Op& op = At(rank, i);
  const int group = job_.communicators.at({rank, op.a}).first;
  const uint32_t parent = DetailsOf(rank).creations[op.b].parent;
  const std::pair<int, int> key =
      parent == 0 ? std::pair(-1 - group, 0)
                  : std::pair(job_.communicators.at({rank, parent}).first,
                              PlaceOf(rank, i).sequence);
  int64_t latest = 0;
  for (const auto& [member, member_op] : creations_.at(key))
    latest = std::max(latest, HostBefore(member, member_op));
  if (group < 0)
    return latest;
  return latest + network_.Creation(MembersOf(group)).duration.nanoseconds();
}

int64_t Oracle::End(int rank, int i) {
  const auto [memo, added] = memo_.try_emplace({'e', rank, i}, 0);
  if (!added)
    return memo->second;
  const Op& op = At(rank, i);
  const auto [numerator, denominator] = job_.work_scales[static_cast<size_t>(rank)];
  const auto start = [&] {
    return std::max(LaneBefore(rank, i), HostBefore(rank, i) + job_.latency_ns);
  };
  int64_t end = 0;
  if (op.kind == OpKind::kWork)
    end = start() + op.value * numerator / denominator;
  if (op.kind == OpKind::kHostFunc)
    end = start() + op.value;
  if (op.kind == OpKind::kRecordToken)
    end = start();
  if (op.kind == OpKind::kWaitToken) {
    const int token = PlaceOf(rank, i).token;
    end = std::max(LaneBefore(rank, i), token < 0 ? 0 : End(rank, token));
  }
  if (op.kind == OpKind::kCollective)
    end = CollectiveEnd(rank, i);
  if (op.kind == OpKind::kTransfers)
    end = TransfersEnd(rank, i);
  return memo_[{'e', rank, i}] = end;
}

int64_t Oracle::Arrival(int rank, int i) {
  const int before = PlaceOf(rank, i).before_on_communicator;
  return std::max({LaneBefore(rank, i), HostBefore(rank, i) + job_.latency_ns,
                   before < 0 ? 0 : End(rank, before)});
}

int64_t Oracle::CollectiveEnd(int rank, int i) {
  const Op& op = At(rank, i);
  const CollectiveCall& call = DetailsOf(rank).collectives[op.b];
  const auto [group, index] = job_.communicators.at({rank, op.a});
  const auto& members = MembersOf(group);
  const uint32_t n = static_cast<uint32_t>(members.size());
  const int sequence = PlaceOf(rank, i).sequence;
  int64_t latest = 0;
  for (uint32_t k = 0; k < n; ++k) {
    if (!Absent(members[k]) && DependsOn(call, n, index, k))
      latest =
          std::max(latest, Arrival(members[k], collectives_.at({group, sequence, k})));
  }
  return latest + network_.Collective(call, members).duration.nanoseconds();
}

int64_t Oracle::TransfersEnd(int rank, int i) {
  const Op& op = At(rank, i);
  const auto [group, index] = job_.communicators.at({rank, op.a});
  int64_t end = Arrival(rank, i);
  uint32_t in_group = 0;
  for (const Transfer& t : DetailsOf(rank).transfer_groups[op.b]) {
    const int number = numbers_.at({rank, i, in_group++});
    end = std::max(end, t.is_send ? SendEnd(group, index, t.peer, number)
                                  : ReceiveEnd(group, t.peer, index, number));
  }
  return end;
}

// An absent side arrives with the present one.
int64_t Oracle::SendArrival(const ChannelKey& key, int number) {
  const Half& half = channels_.at(key).sends[static_cast<size_t>(number)];
  const Half& other = channels_.at(key).receives[static_cast<size_t>(number)];
  return Absent(half.rank) ? Arrival(other.rank, other.op)
                           : Arrival(half.rank, half.op);
}
int64_t Oracle::ReceiveArrival(const ChannelKey& key, int number) {
  const Half& half = channels_.at(key).receives[static_cast<size_t>(number)];
  const Half& other = channels_.at(key).sends[static_cast<size_t>(number)];
  return Absent(half.rank) ? Arrival(other.rank, other.op)
                           : Arrival(half.rank, half.op);
}

int64_t Oracle::TransferCost(const ChannelKey& key, int number) {
  const auto& members = MembersOf(std::get<0>(key));
  return network_
      .Transfer(channels_.at(key).sends[static_cast<size_t>(number)].bytes,
                members[std::get<1>(key)], members[std::get<2>(key)])
      .duration.nanoseconds();
}

int64_t Oracle::Effective(const ChannelKey& key, int number) {
  const auto& [group, from, to] = key;
  const auto& members = MembersOf(group);
  const uint64_t credit = network_.TransferCreditBytes(members[from], members[to]);
  const auto& sends = channels_.at(key).sends;
  uint64_t bytes = sends[static_cast<size_t>(number)].bytes;
  for (int j = number - 1; j >= 0; --j) {
    bytes += sends[static_cast<size_t>(j)].bytes;
    if (bytes > credit)
      return std::max(SendArrival(key, number), ReceiveEnd(group, from, to, j));
  }
  return SendArrival(key, number);
}

int64_t Oracle::SendEnd(int group, uint32_t from, uint32_t to, int number) {
  const ChannelKey key{group, from, to};
  const auto& members = MembersOf(group);
  const bool eager = channels_.at(key).sends[static_cast<size_t>(number)].bytes <=
                     network_.TransferCreditBytes(members[from], members[to]);
  const int64_t effective = Effective(key, number);
  return (eager ? effective : std::max(effective, ReceiveArrival(key, number))) +
         TransferCost(key, number);
}

int64_t Oracle::ReceiveEnd(int group, uint32_t from, uint32_t to, int number) {
  const ChannelKey key{group, from, to};
  return std::max(ReceiveArrival(key, number), Effective(key, number)) +
         TransferCost(key, number);
}

}  // namespace vrank::graph
