// Longest path through a job, by definition: what the engine must equal.
//
// Every time is written down as a recursive function of other times, straight from the
// rules (not from step.h), over complete programs. No lanes, queues or worklists: what
// this file and the engine agree on is the meaning, not the method.

#ifndef VRANK_TESTS_GRAPH_REPLAY_ORACLE_H_
#define VRANK_TESTS_GRAPH_REPLAY_ORACLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/program/program.h"
#include "graph/replay/network_model.h"

namespace vrank::graph {

// A job whose communicators are known in advance.
struct Job {
  struct Group {
    std::string identity;
    std::vector<int32_t> members;
  };
  int64_t latency_ns = 2000;
  uint32_t launch_queue_depth = 4;
  std::vector<std::unique_ptr<Program>> programs;        // by world rank
  std::vector<std::pair<int64_t, int64_t>> work_scales;  // by world rank
  std::set<int32_t> absent;
  std::vector<Group> groups;
  // (rank, its number) -> group, index in it; group -1: not a member.
  std::map<std::pair<int32_t, uint32_t>, std::pair<int, uint32_t>> communicators;
  // Splits: (parent group, split number) -> child groups.
  std::map<std::pair<int, uint32_t>, std::vector<int>> splits;
};

class Oracle {
 public:
  Oracle(const Job& job, const NetworkModel& network);

  int64_t HostBefore(int rank,
                     int op);  // when op acts: host_ns spent, launch room found
  int64_t HostAfter(int rank, int op);
  int64_t End(int rank, int op);  // of what the op does on the device
  int64_t Arrival(int rank, int op);
  int64_t SendEnd(int group, uint32_t from, uint32_t to, int number);
  int64_t ReceiveEnd(int group, uint32_t from, uint32_t to, int number);
  // End of what a host op waits for or asks about.
  int64_t TargetEnd(int rank, int op);

 private:
  struct Place {  // an op, as seen by its neighbours; -1: none
    int before_on_lane = -1, token = -1, before_on_communicator = -1;
    int launch_before = -1, sequence = -1;
  };
  struct Half {
    int rank = -1, op = -1;
    uint64_t bytes = 0;
  };
  struct Channel {
    std::vector<Half> sends, receives;
  };
  using ChannelKey = std::tuple<int, uint32_t, uint32_t>;

  const Op& At(int rank, int op) const {
    return job_.programs[static_cast<size_t>(rank)]->op(static_cast<uint64_t>(op));
  }
  const Details& DetailsOf(int rank) const {
    return job_.programs[static_cast<size_t>(rank)]->details();
  }
  const Place& PlaceOf(int rank, int op) const {
    return places_[static_cast<size_t>(rank)][static_cast<size_t>(op)];
  }
  const std::vector<int32_t>& MembersOf(int group) const {
    return job_.groups[static_cast<size_t>(group)].members;
  }
  void Index(int rank);
  int64_t LaneBefore(int rank, int op);
  int64_t CollectiveEnd(int rank, int op);
  int64_t TransfersEnd(int rank, int op);
  int64_t CreationEnd(int rank, int op);
  int64_t SendArrival(const ChannelKey& key, int number);
  int64_t ReceiveArrival(const ChannelKey& key, int number);
  int64_t Effective(const ChannelKey& key, int number);
  int64_t TransferCost(const ChannelKey& key, int number);
  bool Absent(int rank) const { return job_.absent.count(rank) != 0; }

  const Job& job_;
  const NetworkModel& network_;
  std::vector<std::vector<Place>> places_;
  std::map<ChannelKey, Channel> channels_;
  // (rank, op, place in group) -> number in its channel.
  std::map<std::tuple<int, int, uint32_t>, int> numbers_;
  // (group, sequence, member) -> op of that collective.
  std::map<std::tuple<int, int, uint32_t>, int> collectives_;
  // Creations: key (-1 - group) for init, or parent group and split number -> rank, op.
  std::map<std::pair<int, int>, std::vector<std::pair<int, int>>> creations_;
  std::map<std::tuple<char, int, int>, int64_t> memo_;
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_REPLAY_ORACLE_H_
