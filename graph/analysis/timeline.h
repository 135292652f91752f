// A replay written down: when each op of the played ranks happened, and who met whom.
//
// Recorded while the engine runs (ReplayObservers), completed once it is done. Of a
// folded replay it holds the played ranks only; each stands for all ranks of its
// colour. Memory: 56 bytes per op of a played rank (32 for its times, 24 for what comes
// before it), 40 per transfer, 8 per member of a collective.
//
// Thread rule: one thread; constant once complete.

#ifndef VRANK_GRAPH_ANALYSIS_TIMELINE_H_
#define VRANK_GRAPH_ANALYSIS_TIMELINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/fold/replay.h"

namespace vrank::graph {

// TimelineObserver's terms.
struct OpTimes {
  int64_t reached = 0, passed = 0;  // by the host
  int64_t begin = 0, end = 0;       // on its lane; 0 where the op has no part there
};

// What an op comes after, by index in the program; -1: nothing.
struct OpBefore {
  int32_t on_lane = -1;
  int32_t token = -1;            // the recording of the token it names
  int32_t on_communicator = -1;  // the rank's operation before it there
  int32_t launch = -1;           // whose place in the launch queue it takes
  int32_t sequence = -1;         // collectives and splits: number on the communicator
};

// What work is by its name, where that is more than its class says.
struct NamedWork {
  std::string_view communication;  // operation (base/communication_kernel.h)
  bool is_unexplained = false;     // graph/schema/lane_gaps.h
};

// A rank that was played.
struct PlayedRank {
  int32_t world_rank = 0;
  uint32_t ranks = 1;  // how many it stands for, itself included
  const Program* program = nullptr;
  std::vector<OpTimes> times;
  std::vector<OpBefore> before;
  // Own number -> (place in Timeline::communicators, own index).
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> communicators;
  // By own number: what is added to the peers of transfers (RankOptions::leader); none
  // where the program that was played states the members themselves.
  std::map<uint32_t, uint32_t> shifts;
  std::vector<NamedWork> named;  // by name of the program

  // Of kWork and kHostFunc.
  NamedWork Named(const Op& op) const {
    return op.a < named.size() ? named[op.a] : NamedWork();
  }
  // The operation of work that communicates, by its name; empty: it does not.
  std::string_view CommunicationOf(const Op& op) const {
    return op.kind == OpKind::kWork ? Named(op).communication : std::string_view();
  }
};

struct OpPlace {
  uint32_t rank = 0;  // place in Timeline::ranks
  uint32_t op = 0;
};

struct TimelineCommunicator {
  std::string identity;
  std::vector<int32_t> names;  // members as the network model knows them
  // By number of the collective, by member.
  std::vector<std::vector<OpPlace>> collectives;
  struct Channel {
    std::vector<OpPlace> sends, receives;
    std::vector<int64_t> send_ends, receive_ends;
    std::vector<uint64_t> bytes;
  };
  std::map<std::pair<uint32_t, uint32_t>, Channel> channels;  // (from, to)
  // Meetings of hosts: 0 the init, n + 1 the n-th split of it.
  std::map<uint32_t, std::vector<OpPlace>> meetings;
};

class Timeline : public SilentObserver, public TimelineObserver {
 public:
  ReplayObservers Observers(EngineObserver* every_rank = nullptr,
                            bool operations = true) {
    return {every_rank, this, this, operations};
  }
  // After the run. `replay` outlives this.
  void Complete(const ResolvedJob& job, const FoldedReplay& replay);

  const std::vector<PlayedRank>& ranks() const { return ranks_; }
  // Where a rank that was played stands in ranks().
  uint32_t PlaceOf(int32_t world_rank) const { return place_.at(world_rank); }
  const std::vector<TimelineCommunicator>& communicators() const {
    return communicators_;
  }
  // The member that a transfer of a rank, by its place, is with.
  uint32_t PeerOf(uint32_t rank, uint32_t number, const Transfer& transfer) const;
  const NetworkModel& network() const { return *network_; }
  int64_t latency_ns() const { return latency_ns_; }
  const Op& OpAt(const OpPlace& at) const { return ranks_[at.rank].program->op(at.op); }
  const OpTimes& TimesAt(const OpPlace& at) const {
    return ranks_[at.rank].times[at.op];
  }

  void OnOpPassed(int32_t rank, uint64_t op, const Stamp& reached,
                  const Stamp& passed) override;
  void OnOpEnded(int32_t rank, uint64_t op, const Stamp& begin,
                 const Stamp& end) override;
  void OnTransferEnd(const std::string& communicator, uint32_t from, uint32_t to,
                     uint32_t sequence, uint64_t bytes, bool is_send, int32_t rank,
                     Stamp arrival, Stamp end) override;
  void OnCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                      std::span<const int32_t> members, uint32_t index) override;

 private:
  PlayedRank& Of(int32_t world_rank);
  OpTimes& At(int32_t rank, uint64_t op);
  TimelineCommunicator& Communicator(const std::string& identity);
  void Link(uint32_t rank, uint32_t launch_queue_depth);
  struct Counts;
  void LinkCreation(uint32_t rank, uint32_t op, Counts& counts);
  void LinkCommunication(uint32_t rank, uint32_t op, Counts& counts);

  std::vector<PlayedRank> ranks_;
  std::map<int32_t, uint32_t> place_;
  std::vector<TimelineCommunicator> communicators_;
  std::map<std::string, uint32_t> by_identity_;
  const NetworkModel* network_ = nullptr;
  int64_t latency_ns_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_ANALYSIS_TIMELINE_H_
