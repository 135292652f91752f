// Colour refinement over communicators, and the search for what a quotient could not
// express. Signatures are flat lists of numbers, given colours by comparison.

#include "graph/fold/colours.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <absl/container/flat_hash_map.h>

#include "base/numbering.h"
#include "graph/fold/view.h"
#include "graph/program/program_content.h"

namespace vrank::graph {
namespace {

using Signature = std::vector<uint64_t>;

void Append(Signature& to, const Cost& cost) {
  to.push_back(static_cast<uint64_t>(cost.duration.nanoseconds()));
  to.push_back(static_cast<uint64_t>(cost.source));
}

using Numbering = NumberingOf<Signature>;

class Refiner {
 public:
  Refiner(const ResolvedJob& job, const NetworkModel& network, Colouring initial)
      : job_(job), network_(network), colouring_(std::move(initial)) {
    for (const CommunicatorInstance& instance : job.instances)
      PriceInstance(instance);
    for (uint32_t rank = 0; rank < job.job.ranks.size(); ++rank)
      ResolveTransfers(rank);
    first_exchange_.push_back(exchanges_.size());
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
    uint32_t instance = 0, own = 0, peer = 0;  // own, peer: member indices
    bool is_send = false;
    uint32_t price = 0;  // of bytes, cost and credit
  };
  // What a program transfers on one of its communicators, each once.
  struct Transferred {
    uint32_t number = 0;
    std::vector<Transfer> transfers;
  };
  // To whom a member of an instance sends, or from whom it receives.
  struct Partner {
    uint32_t instance = 0;
    bool is_send = false;
    Label label = 0;  // the peer's
    uint32_t own = 0, peer = 0;
    friend auto operator<=>(const Partner&, const Partner&) = default;
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
    std::vector<Cost>& costs = costs_.emplace_back();
    bool rooted = false;
    for (const CollectiveCall& call : CallsOf(instance)) {
      costs.push_back(network_.Collective(call, ranks));
      Append(price, costs.back());
      rooted |= HasRoot(call.operation);
    }
    prices_.push_back(instance_numbering_(price));
    rooted_.push_back(rooted);
  }

  const std::vector<Transferred>& TransfersOf(const ProgramUse& use) {
    const auto [known, added] = transfers_.try_emplace(&use);
    for (const auto& [number, communicator] : use.communicators) {
      if (!added || communicator.transfers.empty())
        continue;
      std::vector<Transfer>& own = known->second.emplace_back(number).transfers;
      std::set<std::tuple<uint32_t, uint32_t, uint64_t>> seen;
      for (const Transfer& transfer : communicator.transfers) {
        if (seen.emplace(transfer.peer, transfer.is_send, transfer.bytes).second)
          own.push_back(transfer);
      }
    }
    return known->second;
  }

  void ResolveTransfers(uint32_t rank) {
    first_exchange_.push_back(exchanges_.size());
    const int32_t own = job_.job.ranks[rank].world_rank;
    for (const auto& [number, transfers] : TransfersOf(job_.UseOf(rank))) {
      const auto bound = job_.bindings[rank].find(number);
      if (bound == job_.bindings[rank].end())
        continue;
      const CommunicatorBinding& binding = bound->second;
      const std::vector<uint32_t>& members = job_.instances[binding.instance].members;
      const uint32_t shift = job_.PeerShift(rank, number);
      for (const Transfer& transfer : transfers) {
        const uint32_t peer =
            PeerIndex(transfer, shift, static_cast<uint32_t>(members.size()));
        const int32_t other = job_.job.ranks[members[peer]].world_rank;
        const int32_t from = transfer.is_send != 0 ? own : other;
        const int32_t to = transfer.is_send != 0 ? other : own;
        const Cost cost = network_.Transfer(transfer.bytes, from, to);
        const uint32_t price =
            transfer_numbering_({transfer.bytes, network_.TransferCreditBytes(from, to),
                                 static_cast<uint64_t>(cost.duration.nanoseconds()),
                                 static_cast<uint64_t>(cost.source)});
        exchanges_.push_back(
            {binding.instance, binding.index, peer, transfer.is_send != 0, price});
      }
    }
  }
  std::span<const Exchange> ExchangesOf(uint32_t rank) const {
    return std::span(exchanges_)
        .subspan(first_exchange_[rank],
                 first_exchange_[rank + 1] - first_exchange_[rank]);
  }

  void RefineOnce() {
    Numbering kinds, orders;
    // By instance: its members' labels, and what they meet there, which for each member
    // is the kind, and more where operations have roots.
    labels_.clear();
    kinds_.clear();
    std::vector<std::vector<Signature>> rooted_views(job_.instances.size());
    for (uint32_t i = 0; i < job_.instances.size(); ++i) {
      labels_.push_back(LabelsOf(job_.instances[i], colouring_));
      const std::vector<Label>& labels = labels_.back();
      Signature kind = FirstAppearances(labels);
      kind.push_back(prices_[i]);
      kinds_.push_back(kinds(kind));
      if (!rooted_[i])
        continue;
      rooted_views[i].resize(labels.size());
      for (const CollectiveCall& call : CallsOf(job_.instances[i])) {
        if (!HasRoot(call.operation))
          continue;
        const RootedView rooted = ViewOf(call, labels);
        const uint32_t order = orders(rooted.order);
        for (size_t m = 0; m < labels.size(); ++m) {
          const auto& [how, root] = rooted.views[m];
          rooted_views[i][m].insert(rooted_views[i][m].end(), {order, how, root});
        }
      }
    }
    Numbering numbering;
    for (uint32_t rank = 0; rank < colouring_.colour.size(); ++rank) {
      Signature& signature = signature_;
      signature.assign(1, colouring_.colour[rank]);
      for (const auto& [number, binding] : job_.bindings[rank]) {
        signature.push_back(number);
        signature.push_back(kinds_[binding.instance]);
        if (rooted_[binding.instance]) {
          const Signature& view = rooted_views[binding.instance][binding.index];
          signature.insert(signature.end(), view.begin(), view.end());
        }
      }
      for (const Exchange& exchange : ExchangesOf(rank)) {
        signature.push_back(labels_[exchange.instance][exchange.peer]);
        signature.push_back(exchange.price);
      }
      // The labels above keep the colours of before.
      colouring_.colour[rank] = numbering(signature);
    }
    colouring_.colours = numbering.size();
  }

  // True if something was split. Called when a round has split nothing: what it noted
  // of instances holds.
  bool SplitAmbiguous() {
    std::vector<Signature> signatures(colouring_.colour.size());
    for (size_t rank = 0; rank < signatures.size(); ++rank)
      signatures[rank].push_back(colouring_.colour[rank]);
    const std::vector<bool> unclear = UnclearTransfers();
    std::vector<std::optional<bool>> clear_kinds;  // without roots
    bool split = false;
    for (uint32_t i = 0; i < job_.instances.size(); ++i) {
      const CommunicatorInstance& instance = job_.instances[i];
      if (!unclear[i] && IsClear(i, &clear_kinds))
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
    if (split) {
      Numbering numbering;
      for (size_t rank = 0; rank < signatures.size(); ++rank)
        colouring_.colour[rank] = numbering(signatures[rank]);
      colouring_.colours = numbering.size();
    }
    return split;
  }

  // Would a communicator of its labels do the same for every member? Instances of one
  // kind without roots are alike in that.
  bool IsClear(uint32_t i, std::vector<std::optional<bool>>* known) const {
    if (rooted_[i])
      return FindWhetherClear(i);
    known->resize(std::max<size_t>(known->size(), kinds_[i] + 1));
    std::optional<bool>& clear = (*known)[kinds_[i]];
    if (!clear)
      clear = FindWhetherClear(i);
    return *clear;
  }

  bool FindWhetherClear(uint32_t i) const {
    const std::vector<Label>& labels = labels_[i];
    const std::vector<Label> members = FirstAppearances(labels);
    std::set<uint64_t> colours;
    for (const Label label : members) {
      if (!colours.insert(label >> 32).second)
        return false;
    }
    std::map<CollectiveCall, std::pair<int64_t, Source>> costs;
    const std::vector<CollectiveCall>& calls = CallsOf(job_.instances[i]);
    for (size_t c = 0; c < calls.size(); ++c) {
      const CollectiveCall& call = calls[c];
      CollectiveCall folded = call;
      folded.root = Place(members, labels[call.root]);
      const std::pair priced(costs_[i][c].duration.nanoseconds(), costs_[i][c].source);
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
    std::vector<bool> unclear(job_.instances.size());
    std::vector<Partner> partners;
    for (const Exchange& exchange : exchanges_)
      partners.push_back({exchange.instance, exchange.is_send,
                          labels_[exchange.instance][exchange.peer], exchange.own,
                          exchange.peer});
    const auto ranks = static_cast<uint32_t>(colouring_.colour.size());
    const auto partners_of = [&](uint32_t rank) {
      const size_t first = first_exchange_[rank];
      return std::span(partners).subspan(first, first_exchange_[rank + 1] - first);
    };
    for (uint32_t rank = 0; rank < ranks; ++rank)
      std::sort(partners_of(rank).begin(), partners_of(rank).end());
    const auto same_direction = [](const Partner& a, const Partner& b) {
      return std::tie(a.instance, a.is_send, a.label, a.own) ==
             std::tie(b.instance, b.is_send, b.label, b.own);
    };
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const Partner* before = nullptr;
      for (const Partner& one : partners_of(rank)) {
        if (before != nullptr && same_direction(*before, one) &&
            before->peer != one.peer)
          unclear[one.instance] = true;
        before = &one;
        const std::span back =
            partners_of(job_.instances[one.instance].members[one.peer]);
        const Partner wanted{one.instance, !one.is_send, labels_[one.instance][one.own],
                             one.peer, 0};
        const auto found = std::lower_bound(back.begin(), back.end(), wanted);
        if (found != back.end() && same_direction(*found, wanted) &&
            found->peer != one.own)
          unclear[one.instance] = true;
      }
    }
    return unclear;
  }

  const ResolvedJob& job_;
  const NetworkModel& network_;
  Colouring colouring_;
  Numbering instance_numbering_;
  NumberingOf<std::array<uint64_t, 4>> transfer_numbering_;
  absl::flat_hash_map<const ProgramUse*, std::vector<Transferred>> transfers_;
  std::vector<uint32_t> prices_;          // by instance
  std::vector<std::vector<Cost>> costs_;  // by instance, of CallsOf
  std::vector<bool> rooted_;              // by instance: it has such calls
  std::vector<Exchange> exchanges_;       // of all ranks, one after the other
  std::vector<size_t> first_exchange_;    // by rank, and behind the last one
  // Of the last round, by instance.
  std::vector<std::vector<Label>> labels_;
  std::vector<uint32_t> kinds_;
  Signature signature_;  // reused
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
  Numbering alike;
  ProgramNumbering number_of;
  Colouring colouring;
  for (const ReplayJob::Rank& rank : job.ranks) {
    // 3/2 and 6/4 are one factor.
    const int64_t divisor =
        std::gcd(rank.options.work_numerator, rank.options.work_denominator);
    const int64_t by = divisor == 0 ? 1 : divisor;
    Signature own{number_of(rank.program),
                  static_cast<uint64_t>(rank.options.work_numerator / by),
                  static_cast<uint64_t>(rank.options.work_denominator / by)};
    // A rank whose work has jitter is like no other.
    if (rank.options.jitter.on())
      own.push_back(static_cast<uint64_t>(rank.world_rank));
    colouring.colour.push_back(alike(own));
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
