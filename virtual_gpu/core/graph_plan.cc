// Lanes by chains, and edges where the lanes' order does not say it already.
//
// A *clock* counts, for each lane, how many of its nodes are known to have ended. Each
// node has the clock of what has ended when it ends itself; an edge is needed exactly
// where the clock of the waiting lane does not cover the other node.

#include "virtual_gpu/core/graph_plan.h"

#include <algorithm>
#include <unordered_map>

namespace vrank::gpu {
namespace {

constexpr uint32_t kNone = 0xffffffff;

using Clock = std::vector<uint32_t>;

uint32_t At(const Clock& clock, uint32_t lane) {
  return lane < clock.size() ? clock[lane] : 0;
}

void Raise(Clock& clock, const Clock& other) {
  if (clock.size() < other.size())
    clock.resize(other.size());
  for (size_t lane = 0; lane < other.size(); ++lane)
    clock[lane] = std::max(clock[lane], other[lane]);
}

// A node, or a place where a child graph ends (`node` is nullptr).
struct Place {
  GraphNode* node = nullptr;
  std::vector<uint32_t> before;
  uint32_t lane = 0;
  Clock clock{};
  uint32_t token = kNone;
  std::vector<uint32_t> waits{};  // places whose tokens its lane waits for
  bool waits_for_start = false;

  uint32_t position() const { return clock[lane]; }
};

class Planner {
 public:
  // `entry`: what the graph's roots wait for. Appends the places that nothing in the
  // graph waits for to `leaves`.
  bool Flatten(const Graph& graph, const std::vector<uint32_t>& entry,
               std::vector<uint32_t>* leaves);
  void Assign();
  void Write(GraphPlan* plan);

 private:
  uint32_t Choose(const Place& place) const;
  // Makes the lane's clock cover the places, latest first; returns those it waits for.
  std::vector<uint32_t> Cover(Clock* known, std::vector<uint32_t> places);

  std::vector<Place> places_;
  std::vector<uint32_t> tails_{kNone};  // by lane: its last place
  std::vector<uint32_t> last_waits_;
  uint32_t nodes_ = 0;
};

bool Planner::Flatten(const Graph& graph, const std::vector<uint32_t>& entry,
                      std::vector<uint32_t>* leaves) {
  std::vector<GraphNode*> ordered;
  if (!graph.Order(&ordered))
    return false;
  std::unordered_map<const GraphNode*, uint32_t> place_of;
  for (GraphNode* node : ordered) {
    ++nodes_;
    std::vector<uint32_t> before;
    for (const GraphLink& link : node->before)
      before.push_back(place_of.at(link.node));
    if (before.empty())
      before = entry;
    if (const auto* child = std::get_if<ChildContent>(&node->content)) {
      std::vector<uint32_t> ends;
      if (!Flatten(*child->graph, before, &ends))
        return false;
      places_.push_back({.before = ends.empty() ? before : std::move(ends)});
    } else {
      places_.push_back({.node = node, .before = std::move(before)});
    }
    place_of[node] = static_cast<uint32_t>(places_.size() - 1);
  }
  for (GraphNode* node : ordered)
    if (node->after.empty())
      leaves->push_back(place_of.at(node));
  return true;
}

uint32_t Planner::Choose(const Place& place) const {
  for (const uint32_t before : place.before)
    if (tails_[places_[before].lane] == before)
      return places_[before].lane;
  for (uint32_t lane = 0; lane < tails_.size(); ++lane) {
    const uint32_t tail = tails_[lane];
    if (tail == kNone || At(place.clock, lane) >= places_[tail].position())
      return lane;
  }
  return static_cast<uint32_t>(tails_.size());
}

std::vector<uint32_t> Planner::Cover(Clock* known, std::vector<uint32_t> places) {
  std::sort(places.begin(), places.end(), std::greater<>());
  std::vector<uint32_t> waits;
  for (const uint32_t index : places) {
    Place& place = places_[index];
    if (At(*known, place.lane) >= place.position())
      continue;
    place.token = 0;  // numbered when it is written
    waits.push_back(index);
    Raise(*known, place.clock);
  }
  std::reverse(waits.begin(), waits.end());
  return waits;
}

void Planner::Assign() {
  for (uint32_t index = 0; index < places_.size(); ++index) {
    Place& place = places_[index];
    for (const uint32_t before : place.before)
      Raise(place.clock, places_[before].clock);
    place.lane = Choose(place);
    const bool is_new = place.lane == tails_.size();
    if (is_new)
      tails_.push_back(kNone);
    const uint32_t tail = tails_[place.lane];
    Clock known = tail == kNone ? Clock() : places_[tail].clock;
    place.waits_for_start = place.lane != 0 && tail == kNone && place.before.empty();
    place.waits = Cover(&known, place.before);
    place.clock = std::move(known);
    if (place.clock.size() <= place.lane)
      place.clock.resize(place.lane + 1);
    ++place.clock[place.lane];
    tails_[place.lane] = index;
  }
  Clock known = tails_[0] == kNone ? Clock() : places_[tails_[0]].clock;
  std::vector<uint32_t> ends;
  for (uint32_t lane = 1; lane < tails_.size(); ++lane)
    ends.push_back(tails_[lane]);
  last_waits_ = Cover(&known, std::move(ends));
}

void Planner::Write(GraphPlan* plan) {
  using Kind = GraphStep::Kind;
  *plan = {};
  plan->nodes = nodes_;
  plan->lanes = static_cast<uint32_t>(tails_.size());
  auto wait_for = [&](uint32_t lane, const std::vector<uint32_t>& waits) {
    for (const uint32_t other : waits)
      plan->steps.push_back({Kind::kWait, lane, places_[other].token, nullptr});
  };
  const bool starts = std::any_of(places_.begin(), places_.end(),
                                  [](const Place& p) { return p.waits_for_start; });
  const uint32_t start = starts ? plan->tokens++ : kNone;
  if (starts)
    plan->steps.push_back({Kind::kRecord, 0, start, nullptr});
  for (Place& place : places_) {
    if (place.waits_for_start)
      plan->steps.push_back({Kind::kWait, place.lane, start, nullptr});
    wait_for(place.lane, place.waits);
    if (place.node != nullptr)
      plan->steps.push_back({Kind::kNode, place.lane, 0, place.node});
    if (place.token == kNone)
      continue;
    place.token = plan->tokens++;
    plan->steps.push_back({Kind::kRecord, place.lane, place.token, nullptr});
  }
  wait_for(0, last_waits_);
  plan->done = plan->tokens++;
  plan->steps.push_back({Kind::kRecord, 0, plan->done, nullptr});
}

}  // namespace

bool MakePlan(const Graph& graph, GraphPlan* plan) {
  Planner planner;
  std::vector<uint32_t> leaves;
  if (!planner.Flatten(graph, {}, &leaves))
    return false;
  planner.Assign();
  planner.Write(plan);
  return true;
}

}  // namespace vrank::gpu
