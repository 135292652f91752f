#include "graph/flow/max_min.h"

#include <algorithm>

namespace vrank::graph {
namespace {

// Rates closer than this are one: rounding adds up to far less.
constexpr double kSlack = 1 + 1e-9;
// Rounds of choosing before Solve takes all flows that are connected: a chain of
// displacements is shorter than that, or most of the component takes part anyway.
constexpr int kRounds = 8;

}  // namespace

uint32_t MaxMin::AddLink(double capacity) {
  links_.emplace_back().capacity = capacity;
  return static_cast<uint32_t>(links_.size() - 1);
}

uint32_t MaxMin::Add(std::span<const uint32_t> path, double cap) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  Flow& flow = flows_[number];
  flow.hop_count = static_cast<uint32_t>(path.size());
  for (uint32_t i = 0; i < flow.hop_count; ++i) {
    std::vector<Entry>& list = links_[path[i]].flows;
    flow.hops[i] = {path[i], static_cast<uint32_t>(list.size())};
    list.push_back({number, i});
  }
  flow.cap = cap;
  flow.rate = 0;
  flow.bottleneck = kNew;
  flow.chosen = false;
  flow.alive = true;
  new_.push_back(number);
  return number;
}

void MaxMin::Remove(uint32_t number) {
  Flow& flow = flows_[number];
  for (uint32_t i = 0; i < flow.hop_count; ++i) {
    const Hop hop = flow.hops[i];
    Link& link = links_[hop.link];
    const Entry last = link.flows.back();
    link.flows[hop.place] = last;
    flows_[last.flow].hops[last.hop].place = hop.place;
    link.flows.pop_back();
    link.load = link.flows.empty() ? 0 : link.load - flow.rate;
    if (!link.dirty) {
      link.dirty = true;
      dirty_.push_back(hop.link);
    }
  }
  if (flow.bottleneck < kNew)
    --links_[flow.bottleneck].limited;
  flow.alive = false;
  free_.push_back(number);
}

void MaxMin::Choose(uint32_t number) {
  Flow& flow = flows_[number];
  if (flow.chosen)
    return;
  flow.chosen = true;
  chosen_.push_back(number);
  for (uint32_t i = 0; i < flow.hop_count; ++i) {
    Link& link = links_[flow.hops[i].link];
    if (!link.touched) {
      link.touched = true;
      link.chosen = link.was_limited = 0;
      touched_.push_back(flow.hops[i].link);
    }
    ++link.chosen;
  }
  if (flow.bottleneck < kNew)
    ++links_[flow.bottleneck].was_limited;
}

// Everything that a chosen flow shares a link with, directly or by way of others.
void MaxMin::ChooseComponent() {
  for (size_t i = 0; i < touched_.size(); ++i) {
    const Link& link = links_[touched_[i]];
    for (size_t at = 0; link.chosen != link.flows.size() && at < link.flows.size();
         ++at)
      Choose(link.flows[at].flow);
  }
}

void MaxMin::Freeze(uint32_t number, double rate, uint32_t bottleneck) {
  Flow& flow = flows_[number];
  flow.frozen = true;
  flow.next_rate = rate;
  flow.next_bottleneck = bottleneck;
  for (uint32_t i = 0; i < flow.hop_count; ++i) {
    Link& link = links_[flow.hops[i].link];
    link.rest = std::max(0.0, link.rest - rate);
    link.fastest = std::max(link.fastest, rate);
    --link.open;
  }
}

void MaxMin::FreezeLink(uint32_t number, double rate) {
  Link& link = links_[number];
  link.next_level = rate;
  for (size_t at = 0; link.open != 0; ++at) {
    const Flow& flow = flows_[link.flows[at].flow];
    if (flow.chosen && !flow.frozen)
      Freeze(link.flows[at].flow, rate, number);
  }
}

// Raises the rates of all chosen flows together until each meets its cap or a full
// link.
void MaxMin::Fill() {
  looked_at_ += chosen_.size();
  for (const uint32_t number : touched_) {
    Link& link = links_[number];
    link.rest = link.capacity;
    if (link.chosen != link.flows.size()) {
      link.rest -= link.load;
    }
    link.open = link.chosen;
    link.next_level = -1;
    link.fastest = 0;
  }
  for (const uint32_t number : chosen_) {
    Flow& flow = flows_[number];
    flow.frozen = false;
    if (flow.rate == 0)
      continue;
    for (uint32_t i = 0; i < flow.hop_count; ++i) {
      Link& link = links_[flow.hops[i].link];
      if (link.chosen != link.flows.size())
        link.rest += flow.rate;
    }
  }
  const auto later = [](const Share& a, const Share& b) {
    return a.rate > b.rate || (a.rate == b.rate && a.link > b.link);
  };
  shares_.clear();
  for (const uint32_t number : touched_) {
    Link& link = links_[number];
    link.rest = std::max(0.0, link.rest);
    if (link.open != 0)
      shares_.push_back({link.rest / link.open, number});
  }
  std::make_heap(shares_.begin(), shares_.end(), later);
  by_cap_ = chosen_;
  const auto slower = [this](uint32_t a, uint32_t b) {
    return flows_[a].cap < flows_[b].cap || (flows_[a].cap == flows_[b].cap && a < b);
  };
  if (!std::is_sorted(by_cap_.begin(), by_cap_.end(), [this](uint32_t a, uint32_t b) {
        return flows_[a].cap < flows_[b].cap;
      }))
    std::sort(by_cap_.begin(), by_cap_.end(), slower);
  size_t next_cap = 0;
  while (true) {
    while (next_cap < by_cap_.size() && flows_[by_cap_[next_cap]].frozen)
      ++next_cap;
    if (next_cap == by_cap_.size())
      break;
    // A share only grows while others freeze: one that was computed before is a bound.
    while (!shares_.empty()) {
      const Share top = shares_.front();
      const Link& link = links_[top.link];
      const double share = link.open == 0 ? 0 : link.rest / link.open;
      if (link.open != 0 && share <= top.rate)
        break;
      std::pop_heap(shares_.begin(), shares_.end(), later);
      shares_.pop_back();
      if (link.open != 0) {
        shares_.push_back({share, top.link});
        std::push_heap(shares_.begin(), shares_.end(), later);
      }
    }
    const uint32_t slowest = by_cap_[next_cap];
    const double cap = flows_[slowest].cap;
    if (shares_.empty() || cap <= shares_.front().rate * kSlack)
      Freeze(slowest, cap, kOwnCap);
    else
      FreezeLink(shares_.front().link, shares_.front().rate);
  }
}

bool MaxMin::ChooseDisplaced() {
  const size_t before = chosen_.size();
  const size_t links = touched_.size();
  for (size_t i = 0; i < links; ++i) {
    const Link& link = links_[touched_[i]];
    if (link.chosen == link.flows.size())
      continue;
    const uint32_t held = link.limited - link.was_limited;
    const bool limits = link.next_level >= 0;
    // Those that it limited are still limited: it is full, and nothing is faster there.
    const bool full = limits || link.rest <= link.capacity * (kSlack - 1);
    const bool lost = held != 0 && (!full || link.fastest > link.level * kSlack ||
                                    (limits && link.next_level > link.level * kSlack));
    // Those that it limits now: nothing that was held is faster. Where it was a
    // bottleneck before, `level` was the fastest.
    const bool overtaken =
        limits && (held == 0 || link.level > link.next_level * kSlack);
    if (!lost && !overtaken)
      continue;
    const double bound = link.next_level * kSlack;
    for (size_t at = 0; at < link.flows.size(); ++at) {
      const uint32_t number = link.flows[at].flow;
      const Flow& flow = flows_[number];
      if (flow.chosen)
        continue;
      if ((lost && flow.bottleneck == touched_[i]) || (overtaken && flow.rate > bound))
        Choose(number);
    }
  }
  return chosen_.size() != before;
}

void MaxMin::Commit() {
  for (const uint32_t number : touched_) {
    Link& link = links_[number];
    link.load = link.capacity - link.rest;
    link.limited -= link.was_limited;
    if (link.next_level >= 0 && link.limited == 0)
      link.level = link.next_level;
    link.touched = false;
  }
  changed_.clear();
  for (const uint32_t number : chosen_) {
    Flow& flow = flows_[number];
    flow.chosen = false;
    if (flow.rate != flow.next_rate || flow.bottleneck == kNew)
      changed_.push_back(number);
    flow.rate = flow.next_rate;
    flow.bottleneck = flow.next_bottleneck;
    if (flow.bottleneck < kNew)
      ++links_[flow.bottleneck].limited;
  }
  chosen_.clear();
  touched_.clear();
}

void MaxMin::Solve() {
  looked_at_ = 0;
  for (const uint32_t number : new_) {
    if (flows_[number].alive && flows_[number].bottleneck == kNew)
      Choose(number);
  }
  new_.clear();
  for (const uint32_t number : dirty_) {
    Link& link = links_[number];
    link.dirty = false;
    if (link.limited == 0)
      continue;
    for (size_t at = 0; at < link.flows.size(); ++at) {
      if (flows_[link.flows[at].flow].bottleneck == number)
        Choose(link.flows[at].flow);
    }
  }
  dirty_.clear();
  Fill();
  for (int round = 1; ChooseDisplaced(); ++round) {
    if (round >= kRounds)
      ChooseComponent();
    Fill();
  }
  Commit();
}

}  // namespace vrank::graph
