// Rates of flows that share links: max-min fair, kept up to date as flows come and go.
//
// An allocation is max-min fair if and only if every flow has a bottleneck: its own
// cap, or a full link on which no flow is faster (Bertsekas and Gallager, Data
// Networks, 2nd edition, section 6.5.2). Solve uses that both ways. It fills links
// progressively for the flows that a change can touch, the others held where they are,
// and then asks of every link whose load has changed whether those that were held still
// have their bottleneck; those that have not join, and it fills again. What is far from
// a change is not looked at.
//
// Rates are bytes per nanosecond (1e9 bytes/s). Two rates that differ by less than one
// part in 1e9 count as equal. The same calls in the same order give the same bits.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_FLOW_MAX_MIN_H_
#define VRANK_GRAPH_FLOW_MAX_MIN_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace vrank::graph {

class MaxMin {
 public:
  static constexpr size_t kMaxHops = 6;
  static constexpr uint32_t kOwnCap = ~uint32_t{0};

  // REQUIRES: capacity > 0, in bytes per ns.
  uint32_t AddLink(double capacity);
  // A flow over `path`, each link at most once, never faster than `cap` > 0; its rate
  // is known after Solve. Numbers of removed flows are used again. REQUIRES:
  // path.size() <= kMaxHops
  uint32_t Add(std::span<const uint32_t> path, double cap);
  void Remove(uint32_t flow);

  // Brings all rates up to date.
  void Solve();
  // The flows whose rate the last Solve changed or gave for the first time.
  std::span<const uint32_t> changed() const { return changed_; }

  double rate(uint32_t flow) const { return flows_[flow].rate; }
  double cap(uint32_t flow) const { return flows_[flow].cap; }
  // The link that limits the flow, or kOwnCap.
  uint32_t bottleneck(uint32_t flow) const { return flows_[flow].bottleneck; }
  size_t links() const { return links_.size(); }
  double capacity(uint32_t link) const { return links_[link].capacity; }
  // What the flows on the link take together, in bytes per ns.
  double load(uint32_t link) const { return links_[link].load; }
  // Flows that the last Solve looked at, with repetitions.
  uint64_t looked_at() const { return looked_at_; }

 private:
  static constexpr uint32_t kNew = kOwnCap - 1;  // has no rate yet

  struct Hop {
    uint32_t link = 0;
    uint32_t place = 0;  // in the link's list
  };
  struct Flow {
    std::array<Hop, kMaxHops> hops;
    uint32_t hop_count = 0;
    uint32_t bottleneck = kOwnCap;  // a link, kOwnCap, kNew
    double cap = 0;
    double rate = 0;
    double next_rate = 0;
    uint32_t next_bottleneck = kOwnCap;
    bool chosen = false;  // among those that Solve fills for
    bool frozen = false;
    bool alive = false;
  };
  struct Entry {
    uint32_t flow, hop;
  };
  struct Link {
    double capacity = 0;
    double load = 0;
    double level = 0;      // rate of the flows that it is the bottleneck of
    uint32_t limited = 0;  // how many these are
    std::vector<Entry> flows;
    // While Solve runs:
    double rest = 0;           // capacity that chosen flows have not been given
    double next_level = 0;     // negative: it does not limit a chosen flow
    double fastest = 0;        // of the chosen flows
    uint32_t open = 0;         // chosen flows without a rate
    uint32_t chosen = 0;       // chosen flows
    uint32_t was_limited = 0;  // ... whose bottleneck this was
    bool touched = false;
    bool dirty = false;
  };
  struct Share {
    double rate;
    uint32_t link;
  };

  void Choose(uint32_t flow);
  void ChooseComponent();
  void Fill();
  void Freeze(uint32_t flow, double rate, uint32_t bottleneck);
  void FreezeLink(uint32_t link, double rate);
  // Chooses the flows that have lost their bottleneck; false if there are none.
  bool ChooseDisplaced();
  void Commit();

  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::vector<uint32_t> free_, new_, dirty_, chosen_, touched_, changed_;
  std::vector<uint32_t> by_cap_;
  std::vector<Share> shares_;
  uint64_t looked_at_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FLOW_MAX_MIN_H_
