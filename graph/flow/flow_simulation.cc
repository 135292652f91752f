#include "graph/flow/flow_simulation.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace vrank::graph {

uint32_t FlowSimulation::AddLink(double capacity) {
  delay_ns_.push_back(0);
  return max_min_.AddLink(capacity);
}

void FlowSimulation::Start(uint64_t key, uint64_t order, int64_t start_ns,
                           const FlowPlan* plan) {
  if (free_groups_.empty()) {
    free_groups_.push_back(static_cast<uint32_t>(groups_.size()));
    groups_.emplace_back();
  }
  const uint32_t number = free_groups_.back();
  free_groups_.pop_back();
  groups_[number] = {key, start_ns, plan, static_cast<uint32_t>(plan->flows.size())};
  waiting_.push_back({start_ns, order, number});
  std::push_heap(waiting_.begin(), waiting_.end(), StartsLater);
}

void FlowSimulation::StartGroup(uint32_t number) {
  const Group& group = groups_[number];
  const FlowPlan& plan = *group.plan;
  const double ns = static_cast<double>(plan.alone_ns);
  for (uint32_t i = 0; i < plan.flows.size(); ++i) {
    const FlowPlan::Flow& planned = plan.flows[i];
    // What shares nothing is a flow without links, whose cap is its rate.
    const bool shares = planned.hops != 0 && planned.bytes > 0 && plan.alone_ns > 0;
    const double bytes = shares ? planned.bytes : 1;
    const double cap = shares ? bytes / ns : 1;
    const uint32_t flow =
        max_min_.Add(std::span(planned.path.data(), shares ? planned.hops : 0), cap);
    if (flow >= flows_.size())
      flows_.resize(flow + 1);
    flows_[flow] = {number,         i,     kNoLink, group.start_ns + plan.alone_ns,
                    group.start_ns, bytes, 0};
  }
  events_ += plan.flows.size();
  changed_ = true;
}

// Rates as of now, and the ends that follow from them.
void FlowSimulation::Solve() {
  changed_ = false;
  ++solves_;
  max_min_.Solve();
  looked_at_ += max_min_.looked_at();
  moved_.clear();
  for (const uint32_t number : max_min_.changed()) {
    Flow& flow = flows_[number];
    const double rate = max_min_.rate(number);
    flow.left -= flow.rate * static_cast<double>(now_ns_ - flow.since_ns);
    flow.left = std::max(flow.left, 0.0);
    flow.since_ns = now_ns_;
    flow.rate = rate;
    const uint32_t link = max_min_.bottleneck(number);
    if (link != MaxMin::kOwnCap)
      flow.slowed_by = link;
    if (flow.slowed_by != kNoLink) {
      const double ns = std::ceil(flow.left / rate);
      // A flow that gets nothing waits for others to end.
      constexpr double kForever = 4e18;
      flow.end_ns = ns < kForever - static_cast<double>(now_ns_)
                        ? now_ns_ + static_cast<int64_t>(ns)
                        : std::numeric_limits<int64_t>::max();
    }
    moved_.push_back(number);
  }
  Expect(moved_);
}

void FlowSimulation::Expect(const std::vector<uint32_t>& flows) {
  // Where most ends have moved, a new heap is cheaper than many insertions.
  const bool rebuild = flows.size() > 64 && flows.size() * 4 > expected_.size();
  if (rebuild)
    std::erase_if(expected_, [this](const Expected& one) { return Stale(one); });
  for (const uint32_t flow : flows) {
    expected_.push_back({flows_[flow].end_ns, flow});
    if (!rebuild)
      std::push_heap(expected_.begin(), expected_.end(), EndsLater);
  }
  if (rebuild)
    std::make_heap(expected_.begin(), expected_.end(), EndsLater);
}

void FlowSimulation::End(uint32_t number, std::vector<Ended>* ended) {
  Flow& flow = flows_[number];
  Group& group = groups_[flow.group];
  const int64_t delay = now_ns_ - group.start_ns - group.plan->alone_ns;
  if (delay > 0 && flow.slowed_by != kNoLink) {
    delay_ns_[flow.slowed_by] += delay;
    ++delayed_;
  }
  const bool last = --group.left == 0;
  ended->push_back({group.key, flow.index, last, now_ns_});
  if (last)
    free_groups_.push_back(flow.group);
  flow.end_ns = std::numeric_limits<int64_t>::min();
  max_min_.Remove(number);
  ++events_;
  changed_ = true;
}

bool FlowSimulation::Advance(std::vector<Ended>* ended) {
  while (true) {
    // What starts now belongs to the same instant as what has ended before.
    while (!waiting_.empty() && waiting_.front().start_ns <= now_ns_) {
      const uint32_t group = waiting_.front().group;
      std::pop_heap(waiting_.begin(), waiting_.end(), StartsLater);
      waiting_.pop_back();
      StartGroup(group);
    }
    if (changed_)
      Solve();
    while (!expected_.empty() && Stale(expected_.front())) {
      std::pop_heap(expected_.begin(), expected_.end(), EndsLater);
      expected_.pop_back();
    }
    if (expected_.empty() && waiting_.empty())
      return false;
    if (expected_.empty() ||
        (!waiting_.empty() && waiting_.front().start_ns < expected_.front().end_ns)) {
      now_ns_ = waiting_.front().start_ns;
      continue;
    }
    now_ns_ = expected_.front().end_ns;
    while (!expected_.empty() && expected_.front().end_ns == now_ns_) {
      const Expected first = expected_.front();
      std::pop_heap(expected_.begin(), expected_.end(), EndsLater);
      expected_.pop_back();
      if (!Stale(first))
        End(first.flow, ended);
    }
    return true;
  }
}

}  // namespace vrank::graph
