// A replay as processes that calculate, send and receive: what goal.h writes.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_EXPORT_GOAL_SCHEDULE_H_
#define VRANK_GRAPH_EXPORT_GOAL_SCHEDULE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/analysis/timeline.h"

namespace vrank::graph {

struct GoalOp {
  enum class Kind : uint8_t { kCalculate, kSend, kReceive };
  Kind kind;
  uint32_t peer;  // process
  int64_t value;  // ns; of a message: its tag
};

// A message that leaves at some point for another process.
struct Edge {
  uint32_t to;
  uint32_t tag;
};

class GoalSchedule {
 public:
  explicit GoalSchedule(const Timeline& timeline)
      : timeline_(timeline), latency_ns_(timeline.latency_ns()) {}

  absl::Status Make() {
    ranks_.resize(timeline_.ranks().size());
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      PlaceLanes(rank);
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (absl::Status status = Connect(rank); !status.ok())
        return status;
    }
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (absl::Status status = Write(rank); !status.ok())
        return status;
    }
    return absl::OkStatus();
  }

  const std::vector<std::vector<GoalOp>>& processes() const { return processes_; }
  int64_t end_ns() const { return end_ns_; }
  std::vector<uint32_t> Hosts() const {
    std::vector<uint32_t> hosts;
    for (const Rank& rank : ranks_)
      hosts.push_back(rank.host);
    return hosts;
  }

 private:
  struct Rank {
    uint32_t host = 0;
    std::vector<uint32_t> lane_of;  // process, by op
    // What leaves a lane, or the host, after an op.
    std::unordered_map<uint32_t, std::vector<Edge>> after, host_after;
    // What an op's lane, or the host at it, receives before: (process, tag).
    std::unordered_map<uint32_t, std::vector<Edge>> before, host_before;
    std::vector<std::pair<int64_t, uint32_t>> helpers;  // free from then on
    std::map<std::tuple<uint32_t, uint32_t, uint32_t, bool>, uint32_t> transfers;
  };

  const PlayedRank& Played(uint32_t rank) const { return timeline_.ranks()[rank]; }
  uint32_t NewProcess() {
    processes_.emplace_back();
    return static_cast<uint32_t>(processes_.size() - 1);
  }
  void Calculate(uint32_t process, int64_t ns) {
    if (ns > 0)
      processes_[process].push_back({GoalOp::Kind::kCalculate, 0, ns});
  }
  void Send(uint32_t process, const Edge& edge) {
    processes_[process].push_back({GoalOp::Kind::kSend, edge.to, edge.tag});
  }
  void Receive(uint32_t process, const Edge& edge) {
    processes_[process].push_back({GoalOp::Kind::kReceive, edge.to, edge.tag});
  }
  absl::Status Refuse(uint32_t rank, uint32_t op, const char* what) const {
    return absl::UnimplementedError(fmt::format(
        "GOAL cannot say what op {} ({}) of rank {} does: {}", op,
        Name(Played(rank).program->op(op).kind), Played(rank).world_rank, what));
  }

  // A process for the host and for each lane; a lane's number that was released names
  // another lane.
  void PlaceLanes(uint32_t number) {
    Rank& rank = ranks_[number];
    const Program& program = *Played(number).program;
    rank.host = NewProcess();
    rank.lane_of.resize(program.size());
    std::map<uint32_t, uint32_t> lanes;
    for (uint32_t i = 0; i < program.size(); ++i) {
      const Op& op = program.op(i);
      if (op.from_helper != 0)
        continue;
      if (op.kind == OpKind::kReleaseLane) {
        lanes.erase(op.lane);
      } else if (OnLane(op.kind)) {
        const auto [at, added] = lanes.try_emplace(op.lane, 0);
        if (added)
          at->second = NewProcess();
        rank.lane_of[i] = at->second;
      }
    }
  }
  static bool OnLane(OpKind kind) {
    return kind == OpKind::kWork || kind == OpKind::kHostFunc ||
           kind == OpKind::kWaitToken || kind == OpKind::kRecordToken ||
           kind == OpKind::kCollective || kind == OpKind::kTransfers;
  }

  // A message from a lane after `op` to `process`; from the host at `op`.
  void FromLane(Rank& rank, uint32_t op, uint32_t process,
                std::vector<Edge>& received) {
    rank.after[op].push_back({process, ++tag_});
    received.push_back({rank.lane_of[op], tag_});
  }
  void FromHost(Rank& rank, uint32_t op, uint32_t process,
                std::vector<Edge>& received) {
    rank.host_after[op].push_back({process, ++tag_});
    received.push_back({rank.host, tag_});
  }
  // The point that a recording stands for reaches `process`.
  void FromToken(uint32_t number, uint32_t record, uint32_t process,
                 std::vector<Edge>& received) {
    Rank& rank = ranks_[number];
    const int32_t lane = Played(number).before[record].on_lane;
    if (lane >= 0 && rank.lane_of[static_cast<uint32_t>(lane)] != process)
      FromLane(rank, static_cast<uint32_t>(lane), process, received);
    FromHost(rank, record, process, received);
  }

  // The host at op `i` goes on after what `op` left on its lane, or the point that it
  // recorded, by way of a helper that is idle for as long as the latency takes.
  void HostAfter(uint32_t number, uint32_t i, int32_t op) {
    if (op < 0)
      return;
    Rank& rank = ranks_[number];
    const auto place = static_cast<uint32_t>(op);
    const int64_t end_ns = Played(number).times[place].end;
    auto helper = std::find_if(
        rank.helpers.begin(), rank.helpers.end(),
        [&](const auto& one) { return one.first <= end_ns - latency_ns_; });
    if (helper == rank.helpers.end()) {
      rank.helpers.emplace_back(0, NewProcess());
      helper = std::prev(rank.helpers.end());
    }
    helper->first = end_ns;
    std::vector<Edge> received;
    if (Played(number).program->op(place).kind == OpKind::kRecordToken)
      FromToken(number, place, helper->second, received);
    else
      FromLane(rank, place, helper->second, received);
    for (const Edge& edge : received)
      Receive(helper->second, edge);
    Calculate(helper->second, latency_ns_);
    Send(helper->second, {rank.host, ++tag_});
    rank.host_before[i].push_back({helper->second, tag_});
  }

  absl::Status Connect(uint32_t number) {
    Rank& rank = ranks_[number];
    const PlayedRank& played = Played(number);
    for (uint32_t i = 0; i < played.program->size(); ++i) {
      const Op& op = played.program->op(i);
      const OpBefore& before = played.before[i];
      if (op.from_helper != 0)
        continue;
      if (op.launch != 0 && played.times[i].passed > played.times[i].reached)
        HostAfter(number, i, before.launch);
      switch (op.kind) {
        case OpKind::kWaitToken:
          if (before.token >= 0)
            FromToken(number, static_cast<uint32_t>(before.token), rank.lane_of[i],
                      rank.before[i]);
          break;
        case OpKind::kHostWaitToken:
          HostAfter(number, i, before.token);
          break;
        case OpKind::kHostWaitLane:
          HostAfter(number, i, before.on_lane);
          break;
        case OpKind::kReleaseCommunicator:
          if (static_cast<ReleaseKind>(op.b) != ReleaseKind::kAbort)
            HostAfter(number, i, before.on_communicator);
          break;
        case OpKind::kCollective:
        case OpKind::kTransfers:
          if (before.on_communicator >= 0) {
            const auto previous = static_cast<uint32_t>(before.on_communicator);
            if (rank.lane_of[previous] != rank.lane_of[i])
              FromLane(rank, previous, rank.lane_of[i], rank.before[i]);
          }
          break;
        case OpKind::kPollToken:
        case OpKind::kPollLane:
          return Refuse(number, i, "the host looks at intervals");
        case OpKind::kCreateCommunicator:
          if (op.value != 0)
            return Refuse(number, i, "the host does not wait for the communicator");
          if (before.sequence < 0)
            return Refuse(number, i, "the rank is no member");
          break;
        default:
          break;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Write(uint32_t number);

  // Tags that both sides of an exchange find by its name.
  uint32_t Tags(uint64_t kind, uint64_t communicator, uint64_t a, uint64_t b,
                uint32_t count) {
    const auto [at, added] = shared_tags_.try_emplace({kind, communicator, a, b}, 0);
    if (added) {
      at->second = tag_ + 1;
      tag_ += count;
    }
    return at->second;
  }

  // Everybody tells the first one, who tells everybody.
  void Star(const std::vector<uint32_t>& processes, uint32_t own, uint32_t tags) {
    const uint32_t process = processes[own];
    if (own != 0) {
      Send(process, {processes[0], tags + 2 * own});
      Receive(process, {processes[0], tags + 2 * own + 1});
      return;
    }
    for (uint32_t i = 1; i < processes.size(); ++i)
      Receive(process, {processes[i], tags + 2 * i});
    for (uint32_t i = 1; i < processes.size(); ++i)
      Send(process, {processes[i], tags + 2 * i + 1});
  }

  void Create(uint32_t number, uint32_t i);

  void Collective(uint32_t number, uint32_t i);

  absl::Status Transfers(uint32_t number, uint32_t i);

  const Timeline& timeline_;
  const int64_t latency_ns_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<GoalOp>> processes_;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t, uint64_t>, uint32_t> shared_tags_;
  uint32_t tag_ = 0;
  int64_t end_ns_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_EXPORT_GOAL_SCHEDULE_H_
