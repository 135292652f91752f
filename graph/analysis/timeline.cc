// Notes times as they are told; finds out afterwards what came before what.

#include "graph/analysis/timeline.h"

#include <algorithm>

#include "base/communication_kernel.h"
#include "graph/schema/lane_gaps.h"

namespace vrank::graph {

PlayedRank& Timeline::Of(int32_t world_rank) {
  const auto [at, added] =
      place_.try_emplace(world_rank, static_cast<uint32_t>(ranks_.size()));
  if (added) {
    ranks_.emplace_back();
    ranks_.back().world_rank = world_rank;
  }
  return ranks_[at->second];
}

OpTimes& Timeline::At(int32_t rank, uint64_t op) {
  std::vector<OpTimes>& times = Of(rank).times;
  if (times.size() <= op)
    times.resize(op + 1);
  return times[op];
}

void Timeline::OnOpPassed(int32_t rank, uint64_t op, const Stamp& reached,
                          const Stamp& passed) {
  OpTimes& times = At(rank, op);
  times.reached = reached.ns;
  times.passed = passed.ns;
}

void Timeline::OnOpEnded(int32_t rank, uint64_t op, const Stamp& begin,
                         const Stamp& end) {
  OpTimes& times = At(rank, op);
  times.begin = begin.ns;
  times.end = end.ns;
}

TimelineCommunicator& Timeline::Communicator(const std::string& identity) {
  const auto [at, added] =
      by_identity_.try_emplace(identity, static_cast<uint32_t>(communicators_.size()));
  if (added) {
    communicators_.emplace_back();
    communicators_.back().identity = identity;
  }
  return communicators_[at->second];
}

void Timeline::OnTransferEnd(const std::string& communicator, uint32_t from,
                             uint32_t to, uint32_t sequence, uint64_t bytes,
                             bool is_send, int32_t, Stamp, Stamp end) {
  auto& channel = Communicator(communicator).channels[{from, to}];
  std::vector<int64_t>& ends = is_send ? channel.send_ends : channel.receive_ends;
  if (ends.size() <= sequence)
    ends.resize(sequence + 1);
  ends[sequence] = end.ns;
  if (channel.bytes.size() <= sequence)
    channel.bytes.resize(sequence + 1);
  channel.bytes[sequence] = bytes;
}

void Timeline::OnCommunicator(int32_t rank, uint32_t number,
                              const std::string& identity,
                              std::span<const int32_t> members, uint32_t index) {
  TimelineCommunicator& communicator = Communicator(identity);
  communicator.names.assign(members.begin(), members.end());
  Of(rank).communicators[number] = {by_identity_.at(identity), index};
}

void Timeline::Complete(const ResolvedJob& job, const FoldedReplay& replay) {
  const Quotient& quotient = replay.quotient();
  network_ = &quotient;
  latency_ns_ = job.job.options.launch_latency.nanoseconds();
  for (uint32_t colour = 0; colour < quotient.colouring().colours; ++colour) {
    const uint32_t played = quotient.representatives()[colour];
    PlayedRank& rank = Of(job.job.ranks[played].world_rank);
    rank.program = quotient.program(colour);
    for (const std::string& name : rank.program->details().names)
      rank.named.push_back({CommunicationOperation(name).value_or(std::string_view()),
                            name == kUnexplainedGapName});
    rank.times.resize(rank.program->size());
    const auto& colours = quotient.colouring().colour;
    rank.ranks =
        static_cast<uint32_t>(std::count(colours.begin(), colours.end(), colour));
    if (job.foldable)
      continue;  // peers were rewritten (Quotient)
    for (const auto& [number, binding] : job.bindings[played])
      rank.shifts[number] = job.PeerShift(played, number);
  }
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    Link(rank, job.job.options.launch_queue_depth);
}

uint32_t Timeline::PeerOf(uint32_t rank, uint32_t number,
                          const Transfer& transfer) const {
  const PlayedRank& r = ranks_[rank];
  const auto& names = communicators_[r.communicators.at(number).first].names;
  const auto shift = r.shifts.find(number);
  return PeerIndex(transfer, shift == r.shifts.end() ? 0 : shift->second,
                   static_cast<uint32_t>(names.size()));
}

// Of one rank, by its own numbers of communicators.
struct Timeline::Counts {
  std::map<uint32_t, int32_t> last;         // operation so far
  std::map<uint32_t, int32_t> collectives;  // so far
  std::map<uint32_t, int32_t> splits;       // of it, so far
};

// What the engine does with lanes and tokens, without times (step.h,
// lane_ops.h).
void Timeline::Link(uint32_t rank, uint32_t launch_queue_depth) {
  PlayedRank& r = ranks_[rank];
  std::map<uint32_t, int32_t> lanes, tokens;
  std::vector<int32_t> launches;
  Counts counts;
  r.before.resize(r.program->size());
  const auto last = [](const std::map<uint32_t, int32_t>& of, uint32_t key) {
    const auto at = of.find(key);
    return at == of.end() ? -1 : at->second;
  };
  for (uint32_t i = 0; i < r.program->size(); ++i) {
    const Op& op = r.program->op(i);
    OpBefore& before = r.before[i];
    if (op.from_helper != 0) {
      r.times[i].reached = r.times[i].passed = i == 0 ? 0 : r.times[i - 1].passed;
      continue;
    }
    before.on_lane = last(lanes, op.lane);
    before.token = last(tokens, op.a);
    if (op.launch != 0) {
      if (launches.size() >= launch_queue_depth)
        before.launch = launches[launches.size() - launch_queue_depth];
      launches.push_back(static_cast<int32_t>(i));
    }
    switch (op.kind) {
      case OpKind::kCollective:
      case OpKind::kTransfers:
        LinkCommunication(rank, i, counts);
        [[fallthrough]];
      case OpKind::kWork:
      case OpKind::kHostFunc:
      case OpKind::kWaitToken:
        lanes[op.lane] = static_cast<int32_t>(i);
        break;
      case OpKind::kReleaseLane:
        lanes.erase(op.lane);
        break;
      case OpKind::kRecordToken:
        tokens[op.a] = static_cast<int32_t>(i);
        break;
      case OpKind::kCreateCommunicator:
        LinkCreation(rank, i, counts);
        break;
      case OpKind::kReleaseCommunicator:
        before.on_communicator = last(counts.last, op.a);
        break;
      default:
        break;
    }
  }
}

void Timeline::LinkCreation(uint32_t rank, uint32_t i, Counts& counts) {
  PlayedRank& r = ranks_[rank];
  const Op& op = r.program->op(i);
  const uint32_t parent = r.program->details().creations[op.b].parent;
  const int32_t meeting = parent == 0 ? 0 : ++counts.splits[parent];
  const auto met = r.communicators.find(parent == 0 ? op.a : parent);
  if (met == r.communicators.end())
    return;
  r.before[i].sequence = meeting;
  communicators_[met->second.first].meetings[static_cast<uint32_t>(meeting)].push_back(
      {rank, i});
}

void Timeline::LinkCommunication(uint32_t rank, uint32_t i, Counts& counts) {
  PlayedRank& r = ranks_[rank];
  const Op& op = r.program->op(i);
  OpBefore& before = r.before[i];
  const auto [last, is_first] = counts.last.try_emplace(op.a, -1);
  before.on_communicator = std::exchange(last->second, static_cast<int32_t>(i));
  const auto bound = r.communicators.find(op.a);
  if (bound == r.communicators.end())
    return;
  TimelineCommunicator& communicator = communicators_[bound->second.first];
  const uint32_t own = bound->second.second;
  if (op.kind == OpKind::kCollective) {
    before.sequence = counts.collectives[op.a]++;
    const auto sequence = static_cast<size_t>(before.sequence);
    if (communicator.collectives.size() <= sequence)
      communicator.collectives.resize(sequence + 1);
    auto& members = communicator.collectives[sequence];
    members.resize(communicator.names.size());
    members[own] = {rank, i};
    return;
  }
  for (const Transfer& transfer : r.program->details().transfer_groups[op.b]) {
    const bool send = transfer.is_send != 0;
    const uint32_t peer = PeerOf(rank, op.a, transfer);
    auto& channel = communicator.channels[{send ? own : peer, send ? peer : own}];
    (send ? channel.sends : channel.receives).push_back({rank, i});
  }
}

}  // namespace vrank::graph
