// Flows in time: when each ends, as others come and go.
//
// Flows start in groups (an operation's). A flow moves at the rate that MaxMin gives
// it, from its start to its last byte; rates change only at instants at which flows
// start or end, and what starts and ends at one instant is taken together. A flow that
// was never slower than its cap ends exactly `alone_ns` after its start; any other one
// at the first whole nanosecond at which all of its bytes have passed, and not before
// that.
//
// Whoever drives it calls Advance when no group that is not known yet could start
// before the next end: then an end that is told is final.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_FLOW_FLOW_SIMULATION_H_
#define VRANK_GRAPH_FLOW_FLOW_SIMULATION_H_

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "graph/flow/max_min.h"

namespace vrank::graph {

// What moves at once, from where to where.
struct FlowPlan {
  struct Flow {
    std::array<uint32_t, MaxMin::kMaxHops> path{};
    uint32_t hops = 0;  // 0: shares nothing
    double bytes = 0;
  };
  // What every flow takes where nothing is shared, which is the rate that it never
  // exceeds.
  int64_t alone_ns = 0;
  std::vector<Flow> flows;
};

class FlowSimulation {
 public:
  // `end_ns` of one flow; `last`: it is the last one of its group.
  struct Ended {
    uint64_t key = 0;
    uint32_t flow = 0;
    bool last = false;
    int64_t end_ns = 0;
  };

  // Same as MaxMin's, before the first flow.
  uint32_t AddLink(double capacity);

  // The flows of `plan` start at `start_ns`; `key` tells their ends apart. Groups that
  // start at one instant are taken by ascending `order`.
  // REQUIRES: start_ns >= now_ns(); there are flows; `plan` is kept until they have
  // ended
  void Start(uint64_t key, uint64_t order, int64_t start_ns, const FlowPlan* plan);

  // Moves to the next instant at which flows end and appends them. False: none is left.
  bool Advance(std::vector<Ended>* ended);

  int64_t now_ns() const { return now_ns_; }
  // Starts and ends of flows so far.
  uint64_t events() const { return events_; }
  // Times that rates were solved for, and flows that this looked at.
  uint64_t solves() const { return solves_; }
  uint64_t looked_at() const { return looked_at_; }
  // By how much flows ended later than alone, added up over those that this link was
  // the last one to slow down.
  const std::vector<int64_t>& delay_ns() const { return delay_ns_; }
  // Flows that ended later than alone.
  uint64_t delayed() const { return delayed_; }

 private:
  static constexpr uint32_t kNoLink = ~uint32_t{0};

  struct Flow {
    uint32_t group = 0;
    uint32_t index = 0;  // in the plan
    uint32_t slowed_by = kNoLink;
    int64_t end_ns = 0;    // by the rate that it has
    int64_t since_ns = 0;  // `left` is as of then
    double left = 0;       // bytes
    double rate = 0;
  };
  struct Group {
    uint64_t key = 0;
    int64_t start_ns = 0;
    const FlowPlan* plan = nullptr;
    uint32_t left = 0;  // flows that have not ended
  };
  struct Waiting {
    int64_t start_ns;
    uint64_t order;
    uint32_t group;
  };
  // A flow's end as it was expected; stale unless it is still the flow's.
  struct Expected {
    int64_t end_ns;
    uint32_t flow;
  };
  static bool StartsLater(const Waiting& a, const Waiting& b) {
    return a.start_ns > b.start_ns || (a.start_ns == b.start_ns && a.order > b.order);
  }
  static bool EndsLater(const Expected& a, const Expected& b) {
    return a.end_ns > b.end_ns || (a.end_ns == b.end_ns && a.flow > b.flow);
  }
  bool Stale(const Expected& expected) const {
    return flows_[expected.flow].end_ns != expected.end_ns;
  }

  void StartGroup(uint32_t number);
  void Solve();
  void Expect(const std::vector<uint32_t>& flows);
  void End(uint32_t number, std::vector<Ended>* ended);

  MaxMin max_min_;
  std::vector<Flow> flows_;  // by MaxMin's number
  std::vector<Group> groups_;
  std::vector<uint32_t> free_groups_;
  std::vector<Waiting> waiting_;    // heap by start
  std::vector<Expected> expected_;  // heap by end
  std::vector<uint32_t> moved_;     // flows with a new end
  std::vector<int64_t> delay_ns_;   // by link
  int64_t now_ns_ = std::numeric_limits<int64_t>::min();
  bool changed_ = false;  // flows came or went since rates were solved for
  uint64_t events_ = 0, solves_ = 0, looked_at_ = 0, delayed_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FLOW_FLOW_SIMULATION_H_
