#include "emulator/world/gpu_memory.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace vrank::emulator {

int32_t GpuMemory::NodeOf(int32_t rank) const {
  return ranks_per_node_ == 0 ? rank : rank / ranks_per_node_;
}

uint32_t GpuMemory::LocalOf(int32_t rank) const {
  return ranks_per_node_ == 0 ? 0 : static_cast<uint32_t>(rank % ranks_per_node_);
}

void GpuMemory::AddReal(int32_t rank) {
  real_[rank];
  std::vector<int32_t>& ranks = nodes_[NodeOf(rank)];
  ranks.insert(std::lower_bound(ranks.begin(), ranks.end(), rank), rank);
}

void GpuMemory::AddFollower(int32_t rank, int32_t leader) {
  leaders_[rank] = leader;
  std::vector<int32_t>& ranks = nodes_[NodeOf(rank)];
  ranks.insert(std::lower_bound(ranks.begin(), ranks.end(), rank), rank);
}

void GpuMemory::Change(int32_t rank, const graph::Op& op, int64_t ns) {
  History& history = real_[rank].devices[op.a];
  const int64_t before = history.empty() ? 0 : history.back().held;
  history.push_back(
      {ns, op.value, before + op.value, static_cast<graph::MemoryOwner>(op.b)});
}

void GpuMemory::End(int32_t rank, int64_t ns) {
  real_[rank].end_ns = ns;
}

bool GpuMemory::AreNeighbours(int32_t rank, int32_t other) const {
  return NodeOf(rank) == NodeOf(other);
}

bool GpuMemory::Uses(int32_t rank, uint32_t device) const {
  const auto found = real_.find(rank);
  return found != real_.end() && found->second.devices.count(device) != 0;
}

int32_t GpuMemory::LeaderOf(int32_t rank) const {
  const auto leader = leaders_.find(rank);
  return leader == leaders_.end() ? rank : leader->second;
}

bool GpuMemory::AreGpusByRank() const {
  std::map<uint32_t, uint32_t> first;  // by place in the node
  for (const auto& [rank, real] : real_)
    if (!real.devices.empty())
      first.emplace(LocalOf(rank), real.devices.begin()->first);
  std::set<uint32_t> different;
  for (const auto& [local, device] : first)
    different.insert(device);
  return different.size() > 1;
}

uint32_t GpuMemory::DeviceOf(int32_t rank, int32_t leader, uint32_t device) const {
  const uint32_t from = LocalOf(leader), to = LocalOf(rank);
  if (rank == leader || from == to)
    return device;
  const auto& devices = real_.at(leader).devices;
  // A process with several GPUs has those from its number times their count on.
  const auto each = static_cast<uint32_t>(
      ranks_per_node_ == 0 ? 1 : std::max(gpus_per_node_ / ranks_per_node_, 1));
  const bool in_block =
      each > 1 && devices.size() > 1 &&
      std::all_of(devices.begin(), devices.end(),
                  [&](const auto& entry) { return entry.first / each == from; });
  if (in_block)
    return device - from * each + to * each;
  if (device == from)
    return to;
  // One that uses its own GPU, too, strays to a number that the program names. So does
  // one on GPU 0 alone, as without set_device, unless other ranks show otherwise.
  if (devices.count(from) != 0 || (device == 0 && !AreGpusByRank()))
    return device;
  // GPUs are dealt out in another order: backwards where another rank shows that, else
  // from another one on.
  const auto gpus = static_cast<uint32_t>(std::max(gpus_per_node_, 1));
  const bool backwards =
      std::any_of(real_.begin(), real_.end(), [&](const auto& entry) {
        const auto& [other, real] = entry;
        return LocalOf(other) != from && !real.devices.empty() &&
               (real.devices.begin()->first + LocalOf(other)) % gpus ==
                   (device + from) % gpus;
      });
  return backwards ? (device + from + gpus - to % gpus) % gpus
                   : (device + gpus - from % gpus + to) % gpus;
}

std::vector<GpuMemory::Held> GpuMemory::HeldOn(int32_t rank, int32_t leader,
                                               uint32_t device) const {
  std::vector<Held> held;
  for (const auto& [at, history] : real_.at(leader).devices)
    if (!history.empty() && DeviceOf(rank, leader, at) == device)
      held.push_back({at, &history, false});
  const auto earliest =
      std::min_element(held.begin(), held.end(), [](const Held& a, const Held& b) {
        return a.history->front().ns < b.history->front().ns;
      });
  if (earliest != held.end())
    earliest->has_context = true;
  return held;
}

int64_t GpuMemory::HeldAt(const RealRank& rank, const Held& held, int64_t ns,
                          bool inclusive) {
  if (rank.end_ns.has_value() && *rank.end_ns < ns)
    return 0;
  const History& history = *held.history;
  const auto after =
      std::partition_point(history.begin(), history.end(), [&](const Event& event) {
        return event.ns < ns || (inclusive && event.ns == ns);
      });
  int64_t bytes = after == history.begin() ? 0 : std::prev(after)->held;
  if (!held.has_context)
    for (auto event = history.begin(); event != after; ++event)
      bytes -= event->owner == graph::MemoryOwner::kContext ? event->delta : 0;
  return bytes;
}

uint64_t GpuMemory::HeldByOthers(int32_t rank, uint32_t device, int64_t ns,
                                 uint64_t bytes) const {
  int64_t held = 0;
  for (const int32_t other : nodes_.at(NodeOf(rank))) {
    const int32_t leader = LeaderOf(other);
    const RealRank& real = real_.at(leader);
    bool counted = false;  // what a follower takes now
    if (other == rank)
      continue;
    for (const Held& part : HeldOn(other, leader, device)) {
      // Of its own leader, all that is known.
      constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
      held += leader != rank ? HeldAt(real, part, ns, other < rank)
                             : HeldAt(RealRank{}, part, kLast, false);
      counted |= leader == rank && part.leaders_device == device;
    }
    // One that takes the first bytes of a GPU has none in its history.
    counted |= leader == rank && real.devices.count(device) == 0 &&
               DeviceOf(other, leader, device) == device;
    if (counted && other < rank)
      held += static_cast<int64_t>(bytes);
  }
  return static_cast<uint64_t>(std::max<int64_t>(held, 0));
}

GpuMemory::Peak GpuMemory::PeakOf(int32_t node, uint32_t device) const {
  struct Change {
    int64_t ns;
    int32_t rank;
    int64_t delta;
    size_t owner;
  };
  std::vector<Change> changes;
  for (const int32_t rank : nodes_.at(node)) {
    const int32_t leader = LeaderOf(rank);
    const RealRank& real = real_.at(leader);
    for (const Held& held : HeldOn(rank, leader, device)) {
      ByOwner left{};
      for (const Event& event : *held.history) {
        if (!held.has_context && event.owner == graph::MemoryOwner::kContext)
          continue;
        const auto owner = std::min<size_t>(static_cast<size_t>(event.owner), 2);
        changes.push_back({event.ns, rank, event.delta, owner});
        left[owner] += event.delta;
      }
      for (size_t owner = 0; real.end_ns.has_value() && owner < left.size(); ++owner)
        changes.push_back({*real.end_ns + 1, rank, -left[owner], owner});
    }
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) {
                     return std::tie(a.ns, a.rank) < std::tie(b.ns, b.rank);
                   });
  Peak peak;
  peak.node = node;
  peak.device = device;
  size_t until = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    bytes += changes[i].delta;
    if (bytes <= peak.bytes)
      continue;
    peak.bytes = bytes;
    peak.ns = changes[i].ns;
    until = i + 1;
  }
  std::map<int32_t, ByOwner> shares;
  for (const Change& change : changes)
    shares[change.rank];
  for (size_t i = 0; i < until; ++i)
    shares[changes[i].rank][changes[i].owner] += changes[i].delta;
  for (const auto& [rank, held] : shares)
    peak.shares.push_back({rank, real_.count(rank) != 0, held});
  return peak;
}

std::vector<GpuMemory::Peak> GpuMemory::SharedPeaks() const {
  std::vector<Peak> peaks;
  // Nodes whose places follow the same ranks have equal GPUs.
  std::map<std::vector<std::pair<uint32_t, int32_t>>, std::vector<size_t>> alike;
  for (const auto& [node, ranks] : nodes_) {
    std::map<uint32_t, std::set<int32_t>> users;
    std::vector<std::pair<uint32_t, int32_t>> places;
    for (const int32_t rank : ranks) {
      const int32_t leader = LeaderOf(rank);
      places.emplace_back(LocalOf(rank), leader);
      for (const auto& [device, history] : real_.at(leader).devices)
        users[DeviceOf(rank, leader, device)].insert(rank);
    }
    const auto [first, added] = alike.try_emplace(places);
    if (!added) {
      for (const size_t index : first->second)
        ++peaks[index].nodes;
      continue;
    }
    for (const auto& [device, who] : users) {
      if (who.size() < 2)
        continue;
      first->second.push_back(peaks.size());
      peaks.push_back(PeakOf(node, device));
    }
  }
  return peaks;
}

std::vector<GpuMemory::Stray> GpuMemory::Strays() const {
  std::vector<Stray> strays;
  for (const auto& [rank, real] : real_) {
    const int32_t node = NodeOf(rank);
    std::vector<int32_t> ranks = nodes_.at(node);
    if (const auto others = others_.find(node); others != others_.end())
      ranks.insert(ranks.end(), others->second.begin(), others->second.end());
    if (std::all_of(ranks.begin(), ranks.end(),
                    [this](int32_t each) { return real_.count(each) != 0; }))
      continue;
    for (const auto& [device, history] : real.devices) {
      const bool of_another = std::any_of(
          ranks.begin(), ranks.end(),
          [&](int32_t each) { return each != rank && LocalOf(each) == device; });
      int64_t peak = 0;
      for (const Event& event : history)
        peak = std::max(peak, event.held);
      if (of_another && device != LocalOf(rank))
        strays.push_back({rank, device, peak});
    }
  }
  return strays;
}

}  // namespace vrank::emulator
