// Colour refinement over communicators, and the search for what a quotient could not
// express. Signatures are flat lists of numbers, given colours by comparison.

#include "graph/replay/fold_colours.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "graph/replay/fold_view.h"

namespace vrank::graph {
namespace {

using Signature = std::vector<uint64_t>;

void Append(Signature& to, const Cost& cost) {
  to.push_back(static_cast<uint64_t>(cost.duration.nanoseconds()));
  to.push_back(static_cast<uint64_t>(cost.source));
}

// Numbers equal keys alike, by first appearance.
template <class Key>
class Numbering {
 public:
  uint32_t operator()(const Key& key) {
    return numbers_.try_emplace(key, static_cast<uint32_t>(numbers_.size()))
        .first->second;
  }
  uint32_t size() const { return static_cast<uint32_t>(numbers_.size()); }

 private:
  std::map<Key, uint32_t> numbers_;
};

class Refiner {
 public:
  Refiner(const ResolvedJob& job, const NetworkModel& network, Colouring initial)
      : job_(job), network_(network), colouring_(std::move(initial)) {
    for (const CommunicatorInstance& instance : job.instances)
      PriceInstance(instance);
    for (uint32_t rank = 0; rank < job.job.ranks.size(); ++rank)
      ResolveTransfers(rank);
  }

  Colouring Run() {
    do {
      for (uint32_t before = 0; before != colouring_.colours;) {
        before = colouring_.colours;
        RefineOnce();
      }
    } while (SplitAmbiguous());
    return std::move(colouring_);
  }

 private:
  // A transfer of a rank with all that does not depend on colours.
  struct Exchange {
    uint32_t number = 0, instance = 0, peer = 0;  // peer: member index
    bool is_send = false;
    uint32_t price = 0;  // of bytes, cost and credit
  };

  std::vector<int32_t> WorldRanks(const CommunicatorInstance& instance) const {
    std::vector<int32_t> ranks;
    for (const uint32_t member : instance.members)
      ranks.push_back(job_.job.ranks[member].world_rank);
    return ranks;
  }

  const std::vector<CollectiveCall>& CallsOf(
      const CommunicatorInstance& instance) const {
    return job_.UseOf(instance.members[0]).communicators.at(instance.numbers[0]).calls;
  }

  // What the communicator is and costs, whatever the colours.
  void PriceInstance(const CommunicatorInstance& instance) {
    const std::vector<int32_t> ranks = WorldRanks(instance);
    Signature price{instance.sequence, ranks.size()};
    Append(price, network_.Creation(ranks));
    for (const CollectiveCall& call : CallsOf(instance))
      Append(price, network_.Collective(call, ranks));
    prices_.push_back(instance_numbering_(price));
  }

  void ResolveTransfers(uint32_t rank) {
    std::vector<Exchange> exchanges;
    for (const auto& [number, binding] : job_.bindings[rank]) {
      const CommunicatorInstance& instance = job_.instances[binding.instance];
      const int32_t own = job_.job.ranks[rank].world_rank;
      std::set<std::tuple<uint32_t, uint32_t, uint64_t>> seen;
      for (const Transfer& transfer :
           job_.UseOf(rank).communicators.at(number).transfers) {
        if (!seen.emplace(transfer.peer, transfer.is_send, transfer.bytes).second)
          continue;
        Exchange exchange{number, binding.instance,
                          PeerOf(job_, rank, number, transfer), transfer.is_send != 0};
        const int32_t other =
            job_.job.ranks[instance.members[exchange.peer]].world_rank;
        const int32_t from = exchange.is_send ? own : other;
        const int32_t to = exchange.is_send ? other : own;
        Signature price{transfer.bytes, network_.TransferCreditBytes(from, to)};
        Append(price, network_.Transfer(transfer.bytes, from, to));
        exchange.price = transfer_numbering_(price);
        exchanges.push_back(exchange);
      }
    }
    exchanges_.push_back(std::move(exchanges));
  }

  void RefineOnce() {
    Numbering<Signature> kinds, orders;
    std::vector<std::vector<Label>> labels;     // by instance, by member
    std::vector<std::vector<Signature>> views;  // likewise: what the member meets there
    for (uint32_t i = 0; i < job_.instances.size(); ++i) {
      labels.push_back(LabelsOf(job_.instances[i], colouring_));
      Signature kind = FirstAppearances(labels[i]);
      kind.push_back(prices_[i]);
      views.emplace_back(labels[i].size(), Signature{kinds(kind)});
      for (const CollectiveCall& call : CallsOf(job_.instances[i])) {
        if (!HasRoot(call.operation))
          continue;
        const RootedView rooted = ViewOf(call, labels[i]);
        const uint32_t order = orders(rooted.order);
        for (size_t m = 0; m < labels[i].size(); ++m) {
          const auto& [how, root] = rooted.views[m];
          views[i][m].insert(views[i][m].end(), {order, how, root});
        }
      }
    }
    std::vector<Signature> signatures(colouring_.colour.size());
    for (uint32_t rank = 0; rank < signatures.size(); ++rank) {
      Signature& signature = signatures[rank];
      signature.push_back(colouring_.colour[rank]);
      for (const auto& [number, binding] : job_.bindings[rank]) {
        const Signature& view = views[binding.instance][binding.index];
        signature.push_back(number);
        signature.insert(signature.end(), view.begin(), view.end());
      }
      for (const Exchange& exchange : exchanges_[rank]) {
        signature.push_back(labels[exchange.instance][exchange.peer]);
        signature.push_back(exchange.price);
      }
    }
    Recolour(signatures);
  }

  void Recolour(const std::vector<Signature>& signatures) {
    Numbering<Signature> numbering;
    for (size_t rank = 0; rank < signatures.size(); ++rank)
      colouring_.colour[rank] = numbering(signatures[rank]);
    colouring_.colours = numbering.size();
  }

  // True if something was split.
  bool SplitAmbiguous() {
    std::vector<Signature> signatures(colouring_.colour.size());
    for (size_t rank = 0; rank < signatures.size(); ++rank)
      signatures[rank].push_back(colouring_.colour[rank]);
    const std::vector<bool> unclear = UnclearTransfers();
    bool split = false;
    for (uint32_t i = 0; i < job_.instances.size(); ++i) {
      const CommunicatorInstance& instance = job_.instances[i];
      if (!unclear[i] && IsClear(instance))
        continue;
      // Members whose colour is there once are told apart already.
      std::map<uint32_t, uint32_t> times;
      for (const uint32_t member : instance.members)
        ++times[colouring_.colour[member]];
      for (uint32_t m = 0; m < instance.members.size(); ++m) {
        if (times[colouring_.colour[instance.members[m]]] == 1)
          continue;
        signatures[instance.members[m]].push_back(instance.numbers[m]);
        signatures[instance.members[m]].push_back(m);
        split = true;
      }
    }
    if (split)
      Recolour(signatures);
    return split;
  }

  // Would a communicator of its labels do the same for every member?
  bool IsClear(const CommunicatorInstance& instance) const {
    const std::vector<Label> labels = LabelsOf(instance, colouring_);
    const std::vector<Label> members = FirstAppearances(labels);
    std::set<uint64_t> colours;
    for (const Label label : members) {
      if (!colours.insert(label >> 32).second)
        return false;
    }
    std::map<CollectiveCall, std::pair<int64_t, Source>> costs;
    const std::vector<int32_t> ranks = WorldRanks(instance);
    for (const CollectiveCall& call : CallsOf(instance)) {
      CollectiveCall folded = call;
      folded.root = Place(members, labels[call.root]);
      const Cost cost = network_.Collective(call, ranks);
      const std::pair priced(cost.duration.nanoseconds(), cost.source);
      if (costs.try_emplace(folded, priced).first->second != priced)
        return false;
      if (HasRoot(call.operation) &&
          !SameViews(ViewOf(call, labels), ViewOf(folded, members), labels, members))
        return false;
    }
    return true;
  }

  static uint32_t Place(const std::vector<Label>& members, Label label) {
    return static_cast<uint32_t>(std::find(members.begin(), members.end(), label) -
                                 members.begin());
  }

  static bool SameViews(const RootedView& whole, const RootedView& folded,
                        const std::vector<Label>& labels,
                        const std::vector<Label>& members) {
    if (whole.order != folded.order)
      return false;
    for (size_t m = 0; m < labels.size(); ++m) {
      if (whole.views[m] != folded.views[Place(members, labels[m])])
        return false;
    }
    return true;
  }

  // By instance: a member has two peers of one label in one direction, or the one it
  // sends to expects that label from another.
  std::vector<bool> UnclearTransfers() const {
    using Key = std::tuple<uint32_t, uint32_t, Label, bool>;
    std::map<Key, uint32_t> peers;  // (instance, member, label of the peer, is_send)
    std::vector<bool> unclear(job_.instances.size());
    std::vector<std::vector<Label>> labels(job_.instances.size());
    for (uint32_t rank = 0; rank < exchanges_.size(); ++rank) {
      for (const Exchange& exchange : exchanges_[rank]) {
        const uint32_t i = exchange.instance;
        if (labels[i].empty())
          labels[i] = LabelsOf(job_.instances[i], colouring_);
        const uint32_t own = job_.bindings[rank].at(exchange.number).index;
        const Key key{i, own, labels[i][exchange.peer], exchange.is_send};
        if (peers.try_emplace(key, exchange.peer).first->second != exchange.peer)
          unclear[i] = true;
      }
    }
    for (const auto& [key, peer] : peers) {
      const auto& [i, own, label, is_send] = key;
      const auto back = peers.find(Key{i, peer, labels[i][own], !is_send});
      if (back != peers.end() && back->second != own)
        unclear[i] = true;
    }
    return unclear;
  }

  const ResolvedJob& job_;
  const NetworkModel& network_;
  Colouring colouring_;
  Numbering<Signature> instance_numbering_, transfer_numbering_;
  std::vector<uint32_t> prices_;                  // by instance
  std::vector<std::vector<Exchange>> exchanges_;  // by rank
};

}  // namespace

Colouring SeparateColours(const ReplayJob& job) {
  Colouring colouring;
  colouring.colour.resize(job.ranks.size());
  std::iota(colouring.colour.begin(), colouring.colour.end(), 0u);
  colouring.colours = static_cast<uint32_t>(job.ranks.size());
  return colouring;
}

Colouring InitialColours(const ReplayJob& job) {
  // A rank whose work has jitter is like no other: the last number is its own.
  Numbering<std::tuple<const Program*, int64_t, int64_t, int64_t>> alike;
  Colouring colouring;
  for (const ReplayJob::Rank& rank : job.ranks) {
    // 3/2 and 6/4 are one factor.
    const int64_t divisor =
        std::gcd(rank.options.work_numerator, rank.options.work_denominator);
    const int64_t by = divisor == 0 ? 1 : divisor;
    colouring.colour.push_back(
        alike({rank.program, rank.options.work_numerator / by,
               rank.options.work_denominator / by,
               rank.options.jitter.on() ? rank.world_rank : int64_t{-1}}));
  }
  colouring.colours = alike.size();
  return colouring;
}

Colouring RefineColours(const ResolvedJob& job, const NetworkModel& network,
                        Colouring initial) {
  if (!job.foldable)
    return SeparateColours(job.job);
  return Refiner(job, network, std::move(initial)).Run();
}

Colouring RefineColours(const ResolvedJob& job, const NetworkModel& network) {
  Colouring initial = InitialColours(job.job);
  if (initial.colours == job.job.ranks.size())
    return initial;
  return RefineColours(job, network, std::move(initial));
}

}  // namespace vrank::graph
