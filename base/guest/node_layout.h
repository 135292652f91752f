// How a CUDA graph is laid out on lanes: what a launch issues, in order.
//
// Each node goes onto one lane, behind a node that it waits for where that is possible,
// so that chains need no edges; other edges become a token that is recorded behind the
// one node and waited for before the other, unless what the lane has waited for already
// covers it. Lane 0 is the launching stream's: roots begin where that stream stands,
// and it goes on after all nodes.
//
// A *clock* counts, for each lane, how many of its nodes are known to have ended. Each
// node has the clock of what has ended when it ends itself; an edge is needed exactly
// where the clock of the waiting lane does not cover the other node.
//
// The virtual GPU launches by this layout, and the builder of graphs finds the same one
// again from the nodes and edges in a trace.
//
// Thread rule: plain values.

#ifndef VRANK_BASE_GUEST_NODE_LAYOUT_H_
#define VRANK_BASE_GUEST_NODE_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace vrank {

// By node: the nodes that it waits for.
using NodeEdges = std::vector<std::vector<uint32_t>>;

struct LayoutStep {
  enum class Kind : uint8_t { kNode, kRecord, kWait };
  Kind kind = Kind::kNode;
  uint32_t lane = 0;
  uint32_t token = 0;  // kRecord, kWait
  uint32_t node = 0;   // kNode
};

struct NodeLayout {
  std::vector<LayoutStep> steps;
  uint32_t lanes = 1;
  uint32_t tokens = 0;
  uint32_t done = 0;  // the token that is recorded last, on lane 0
};

// Each node behind those it waits for, otherwise as they are numbered. Fewer than all
// where there is a cycle. REQUIRES: every edge names a node.
inline std::vector<uint32_t> OrderNodes(const NodeEdges& before) {
  std::vector<std::vector<uint32_t>> after(before.size());
  std::vector<size_t> left(before.size());
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t node = 0; node < before.size(); ++node) {
    left[node] = before[node].size();
    if (before[node].empty())
      ready.push(node);
    for (const uint32_t other : before[node])
      after[other].push_back(node);
  }
  std::vector<uint32_t> ordered;
  ordered.reserve(before.size());
  while (!ready.empty()) {
    const uint32_t node = ready.top();
    ready.pop();
    ordered.push_back(node);
    for (const uint32_t other : after[node])
      if (--left[other] == 0)
        ready.push(other);
  }
  return ordered;
}

class NodePlanner {
 public:
  // REQUIRES: nodes wait for nodes with lower numbers only.
  explicit NodePlanner(const NodeEdges& before) : before_(before) {}

  NodeLayout LayOut() {
    Assign();
    return Write();
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  using Clock = std::vector<uint32_t>;

  struct Place {
    uint32_t lane = 0;
    Clock clock{};
    uint32_t token = kNone;
    std::vector<uint32_t> waits{};  // nodes whose tokens its lane waits for
    bool waits_for_start = false;

    uint32_t position() const { return clock[lane]; }
  };

  static uint32_t At(const Clock& clock, uint32_t lane) {
    return lane < clock.size() ? clock[lane] : 0;
  }
  static void Raise(Clock& clock, const Clock& other) {
    if (clock.size() < other.size())
      clock.resize(other.size());
    for (size_t lane = 0; lane < other.size(); ++lane)
      clock[lane] = std::max(clock[lane], other[lane]);
  }

  uint32_t Choose(uint32_t node) const {
    for (const uint32_t other : before_[node])
      if (tails_[places_[other].lane] == other)
        return places_[other].lane;
    for (uint32_t lane = 0; lane < tails_.size(); ++lane) {
      const uint32_t tail = tails_[lane];
      if (tail == kNone || At(places_[node].clock, lane) >= places_[tail].position())
        return lane;
    }
    return static_cast<uint32_t>(tails_.size());
  }

  // Makes the lane's clock cover the nodes, latest first; returns those it waits for.
  std::vector<uint32_t> Cover(Clock* known, std::vector<uint32_t> nodes) {
    std::sort(nodes.begin(), nodes.end(), std::greater<>());
    std::vector<uint32_t> waits;
    for (const uint32_t node : nodes) {
      Place& place = places_[node];
      if (At(*known, place.lane) >= place.position())
        continue;
      place.token = 0;  // numbered when it is written
      waits.push_back(node);
      Raise(*known, place.clock);
    }
    std::reverse(waits.begin(), waits.end());
    return waits;
  }

  void Assign() {
    places_.resize(before_.size());
    for (uint32_t node = 0; node < before_.size(); ++node) {
      Place& place = places_[node];
      for (const uint32_t other : before_[node])
        Raise(place.clock, places_[other].clock);
      place.lane = Choose(node);
      if (place.lane == tails_.size())
        tails_.push_back(kNone);
      const uint32_t tail = tails_[place.lane];
      Clock known = tail == kNone ? Clock() : places_[tail].clock;
      place.waits_for_start = place.lane != 0 && tail == kNone && before_[node].empty();
      place.waits = Cover(&known, before_[node]);
      place.clock = std::move(known);
      if (place.clock.size() <= place.lane)
        place.clock.resize(place.lane + 1);
      ++place.clock[place.lane];
      tails_[place.lane] = node;
    }
    Clock known = tails_[0] == kNone ? Clock() : places_[tails_[0]].clock;
    std::vector<uint32_t> ends;
    for (uint32_t lane = 1; lane < tails_.size(); ++lane)
      ends.push_back(tails_[lane]);
    last_waits_ = Cover(&known, std::move(ends));
  }

  NodeLayout Write() {
    using Kind = LayoutStep::Kind;
    NodeLayout layout;
    layout.lanes = static_cast<uint32_t>(tails_.size());
    auto wait_for = [&](uint32_t lane, const std::vector<uint32_t>& waits) {
      for (const uint32_t other : waits)
        layout.steps.push_back({Kind::kWait, lane, places_[other].token, 0});
    };
    const bool starts = std::any_of(places_.begin(), places_.end(),
                                    [](const Place& p) { return p.waits_for_start; });
    const uint32_t start = starts ? layout.tokens++ : kNone;
    if (starts)
      layout.steps.push_back({Kind::kRecord, 0, start, 0});
    for (uint32_t node = 0; node < places_.size(); ++node) {
      Place& place = places_[node];
      if (place.waits_for_start)
        layout.steps.push_back({Kind::kWait, place.lane, start, 0});
      wait_for(place.lane, place.waits);
      layout.steps.push_back({Kind::kNode, place.lane, 0, node});
      if (place.token == kNone)
        continue;
      place.token = layout.tokens++;
      layout.steps.push_back({Kind::kRecord, place.lane, place.token, 0});
    }
    wait_for(0, last_waits_);
    layout.done = layout.tokens++;
    layout.steps.push_back({Kind::kRecord, 0, layout.done, 0});
    return layout;
  }

  const NodeEdges& before_;
  std::vector<Place> places_;
  std::vector<uint32_t> tails_{kNone};  // by lane: its last node
  std::vector<uint32_t> last_waits_;
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_NODE_LAYOUT_H_
