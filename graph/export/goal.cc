#include "graph/export/goal.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "graph/export/goal_schedule.h"

namespace vrank::graph {

absl::Status GoalSchedule::Write(uint32_t number) {
  Rank& rank = ranks_[number];
  const PlayedRank& played = Played(number);
  for (uint32_t i = 0; i < played.program->size(); ++i) {
    const Op& op = played.program->op(i);
    if (op.from_helper != 0)
      continue;
    Calculate(rank.host, op.host_ns);
    for (const Edge& edge : rank.host_before[i])
      Receive(rank.host, edge);
    for (const Edge& edge : rank.host_after[i])
      Send(rank.host, edge);
    end_ns_ = std::max(end_ns_, played.times[i].passed);
    if (op.kind == OpKind::kCreateCommunicator)
      Create(number, i);
    if (!OnLane(op.kind) || op.kind == OpKind::kRecordToken)
      continue;
    const uint32_t lane = rank.lane_of[i];
    if (op.kind != OpKind::kWaitToken) {
      Send(rank.host, {lane, ++tag_});
      Receive(lane, {rank.host, tag_});
    }
    for (const Edge& edge : rank.before[i])
      Receive(lane, edge);
    absl::Status status;
    if (op.kind == OpKind::kCollective)
      Collective(number, i);
    else if (op.kind == OpKind::kTransfers)
      status = Transfers(number, i);
    else if (op.kind != OpKind::kWaitToken)
      Calculate(lane, played.times[i].end - played.times[i].begin);
    if (!status.ok())
      return status;
    for (const Edge& edge : rank.after[i])
      Send(lane, edge);
    end_ns_ = std::max(end_ns_, played.times[i].end - latency_ns_);
  }
  return absl::OkStatus();
}

void GoalSchedule::Create(uint32_t number, uint32_t i) {
  const PlayedRank& played = Played(number);
  const Op& op = played.program->op(i);
  const uint32_t parent = played.program->details().creations[op.b].parent;
  const uint32_t communicator =
      played.communicators.at(parent == 0 ? op.a : parent).first;
  const auto sequence = static_cast<uint32_t>(played.before[i].sequence);
  const auto& members = timeline_.communicators()[communicator].meetings.at(sequence);
  std::vector<uint32_t> hosts;
  int64_t latest_ns = 0;
  uint32_t own = 0;
  for (const OpPlace& member : members) {
    if (member.rank == number)
      own = static_cast<uint32_t>(hosts.size());
    hosts.push_back(ranks_[member.rank].host);
    latest_ns = std::max(latest_ns, timeline_.TimesAt(member).reached);
  }
  Star(hosts, own,
       Tags(0, communicator, sequence, 0, 2 * static_cast<uint32_t>(hosts.size())));
  Calculate(ranks_[number].host, played.times[i].passed - latest_ns);
}

void GoalSchedule::Collective(uint32_t number, uint32_t i) {
  const PlayedRank& played = Played(number);
  const Op& op = played.program->op(i);
  const CollectiveCall& call = played.program->details().collectives[op.b];
  const auto [index, own] = played.communicators.at(op.a);
  const TimelineCommunicator& communicator = timeline_.communicators()[index];
  const auto sequence = static_cast<size_t>(played.before[i].sequence);
  std::vector<uint32_t> lanes;
  for (const OpPlace& member : communicator.collectives[sequence])
    lanes.push_back(ranks_[member.rank].lane_of[member.op]);
  const auto size = static_cast<uint32_t>(lanes.size());
  const uint32_t tags = Tags(1, index, sequence, 0, 2 * size);
  const uint32_t lane = lanes[own];
  // `up`: towards lower places.
  const auto tell = [&](uint32_t from, uint32_t to, bool up) {
    const uint32_t tag = tags + 2 * (up ? from : to) + (up ? 0 : 1);
    if (from == own)
      Send(lane, {lanes[to], tag});
    else
      Receive(lane, {lanes[from], tag});
  };
  switch (call.operation) {
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce: {
      const uint32_t first =
          call.operation == CollectiveKind::kReduce ? call.root + 1 : call.root;
      const uint32_t place = (own + 2 * size - first) % size;
      const uint32_t previous = (own + size - 1) % size, next = (own + 1) % size;
      if (place != 0) {
        tell(own, previous, true);
        tell(previous, own, false);
      }
      if (place + 1 != size) {
        tell(own, next, false);
        tell(next, own, true);
      }
      break;
    }
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      for (uint32_t other = 0; other < size; ++other) {
        if (own == call.root && other != own)
          tell(own, other, false);
      }
      if (own != call.root) {
        tell(own, call.root, true);
        tell(call.root, own, false);
      }
      for (uint32_t other = 0; other < size; ++other) {
        if (own == call.root && other != own)
          tell(other, own, true);
      }
      break;
    default:
      Star(lanes, own, tags);
  }
  Calculate(
      lane,
      timeline_.network().Collective(call, communicator.names).duration.nanoseconds());
}

absl::Status GoalSchedule::Transfers(uint32_t number, uint32_t i) {
  Rank& rank = ranks_[number];
  const PlayedRank& played = Played(number);
  const Op& op = played.program->op(i);
  const auto [index, own] = played.communicators.at(op.a);
  const TimelineCommunicator& communicator = timeline_.communicators()[index];
  const uint32_t lane = rank.lane_of[i];
  std::vector<Edge> received;
  int64_t cost_ns = -1;
  for (const Transfer& transfer : played.program->details().transfer_groups[op.b]) {
    const bool send = transfer.is_send != 0;
    const uint32_t member = timeline_.PeerOf(number, op.a, transfer);
    const uint32_t from = send ? own : member, to = send ? member : own;
    const uint32_t sequence = rank.transfers[{index, from, to, send}]++;
    const auto& channel = communicator.channels.at({from, to});
    const int32_t from_rank = communicator.names[from],
                  to_rank = communicator.names[to];
    const int64_t ns = timeline_.network()
                           .Transfer(transfer.bytes, from_rank, to_rank)
                           .duration.nanoseconds();
    if (cost_ns >= 0 && ns != cost_ns)
      return Refuse(number, i, "its transfers have different costs");
    cost_ns = ns;
    // Operations that were given up by an abort.
    if (sequence >= channel.sends.size() || sequence >= channel.receives.size() ||
        sequence >= channel.send_ends.size())
      return Refuse(number, i, "a transfer has one side only");
    const OpPlace& source = channel.sends[sequence];
    const OpPlace& target = channel.receives[sequence];
    const uint64_t credit = timeline_.network().TransferCreditBytes(from_rank, to_rank);
    const bool waits = transfer.bytes > credit;
    int64_t begin_ns = timeline_.TimesAt(source).begin;
    if (waits)
      begin_ns = std::max(begin_ns, timeline_.TimesAt(target).begin);
    if (channel.send_ends[sequence] != begin_ns + ns)
      return Refuse(number, i, "a send waits for credit");
    if (from == to)
      continue;
    const OpPlace& peer = send ? target : source;
    const uint32_t other = ranks_[peer.rank].lane_of[peer.op];
    const uint32_t tags = Tags(2, index, uint64_t{from} << 32 | to, sequence, 2);
    if (send || waits)
      Send(lane, {other, tags + (send ? 0 : 1)});
    if (!send || waits)
      received.push_back({other, tags + (send ? 1 : 0)});
  }
  for (const Edge& edge : received)
    Receive(lane, edge);
  Calculate(lane, cost_ns);
  return absl::OkStatus();
}

namespace {

// What a schedule reads like, or how long it is.
class GoalText {
 public:
  std::string text;
  void operator<<(std::string_view part) { text += part; }
  void operator<<(uint64_t number) {
    fmt::format_to(std::back_inserter(text), "{}", number);
  }
};
class GoalLength {
 public:
  uint64_t bytes = 0;
  void operator<<(std::string_view part) { bytes += part.size(); }
  void operator<<(uint64_t number) {
    for (++bytes; number >= 10; number /= 10)
      ++bytes;
  }
};

template <typename To>
void PrintProcess(size_t process, const std::vector<GoalOp>& ops, To& to) {
  to << "\nrank ";
  to << process;
  to << " {\n";
  uint64_t label = 0;
  for (const GoalOp& op : ops) {
    ++label;
    to << "l";
    to << label;
    if (op.kind == GoalOp::Kind::kCalculate) {
      to << ": calc ";
    } else {
      to << (op.kind == GoalOp::Kind::kSend ? ": send 1b to " : ": recv 1b from ");
      to << uint64_t{op.peer};
      to << " tag ";
    }
    to << static_cast<uint64_t>(op.value);
    to << "\n";
    if (label > 1) {
      to << "l";
      to << label;
      to << " requires l";
      to << label - 1;
      to << "\n";
    }
  }
  to << "}\n";
}

}  // namespace

absl::StatusOr<GoalFacts> WriteGoal(
    const Timeline& timeline, std::ostream& out,
    const std::function<absl::Status(uint64_t bytes)>& begin) {
  GoalSchedule schedule(timeline);
  if (absl::Status status = schedule.Make(); !status.ok())
    return status;
  GoalFacts facts;
  facts.processes = static_cast<uint32_t>(schedule.processes().size());
  facts.end_ns = schedule.end_ns();
  facts.hosts = schedule.Hosts();
  const std::string head = fmt::format("num_ranks {}\n", facts.processes);
  GoalLength length;
  length << head;
  for (size_t process = 0; process < schedule.processes().size(); ++process) {
    facts.ops += schedule.processes()[process].size();
    if (begin)
      PrintProcess(process, schedule.processes()[process], length);
  }
  if (begin) {
    if (absl::Status status = begin(length.bytes); !status.ok())
      return status;
  }
  out << head;
  for (size_t process = 0; process < schedule.processes().size(); ++process) {
    GoalText to;
    PrintProcess(process, schedule.processes()[process], to);
    out << to.text;
  }
  if (!out.flush())
    return absl::DataLossError("could not write all of it");
  return facts;
}

}  // namespace vrank::graph
