// Colour refinement of a running engine's ranks; see live_colours.h.

#include "graph/replay/live_colours.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <absl/container/flat_hash_map.h>

#include "base/numbering.h"
#include "graph/program/pool.h"

namespace vrank::graph {
namespace {

// A rank's communicators, by its own numbers.
struct Seat {
  uint32_t number = 0, communicator = 0, index = 0;
  friend auto operator<=>(const Seat&, const Seat&) = default;
};

using Signature = std::vector<uint32_t>;

class Refinement {
 public:
  Refinement(const std::vector<uint32_t>& initial,
             std::vector<LiveCommunicator> communicators)
      : communicators_(std::move(communicators)), memberships_(initial.size()) {
    Recolour([&](uint32_t rank) { return Signature{initial[rank]}; });
    NumberingOf<std::string> conditions;
    for (uint32_t i = 0; i < communicators_.size(); ++i) {
      const LiveCommunicator& c = communicators_[i];
      conditions_.push_back(conditions(c.condition));
      for (uint32_t m = 0; m < c.ranks.size(); ++m) {
        if (c.ranks[m] != kNone)
          memberships_[c.ranks[m]].push_back({c.numbers[m], i, m});
      }
    }
    for (std::vector<Seat>& of_rank : memberships_)
      std::sort(of_rank.begin(), of_rank.end());
  }

  LiveColouring Run() {
    uint32_t before = 0;
    do {
      before = result_.colours;
      FindFamilies();
      Recolour([this](uint32_t rank) { return SignatureOf(rank); });
    } while (result_.colours != before);
    return std::move(result_);
  }

 private:
  template <class Of>
  void Recolour(Of signature_of) {
    NumberingOf<Signature> numbering;
    std::vector<uint32_t> colour(memberships_.size());
    for (uint32_t rank = 0; rank < colour.size(); ++rank)
      colour[rank] = numbering(signature_of(rank));
    result_.colour = std::move(colour);
    result_.colours = numbering.size();
  }

  Signature SignatureOf(uint32_t rank) const {
    Signature signature{result_.colour[rank]};
    for (const Seat& of : memberships_[rank]) {
      signature.push_back(of.number);
      signature.push_back(result_.family[of.communicator]);
      signature.push_back(communicators_[of.communicator].apart ? of.index : 0);
    }
    return signature;
  }

  void FindFamilies() {
    NumberingOf<Signature> numbering;
    result_.family.resize(communicators_.size());
    for (uint32_t i = 0; i < communicators_.size(); ++i) {
      LiveCommunicator& c = communicators_[i];
      Signature signature{conditions_[i], static_cast<uint32_t>(c.ranks.size())};
      c.apart = c.apart || !AddLabels(c, &signature);
      if (c.apart)
        AddMembers(c, &signature);
      signature.push_back(c.apart ? 1 : 0);
      result_.family[i] = numbering(signature);
    }
    result_.families = numbering.size();
  }

  // Colours and numbers of the members, each once. False: a colour has two numbers.
  bool AddLabels(const LiveCommunicator& c, Signature* signature) {
    number_of_.clear();
    for (uint32_t m = 0; m < c.ranks.size(); ++m) {
      if (c.ranks[m] == kNone)
        continue;
      const uint32_t colour = result_.colour[c.ranks[m]];
      const auto [known, added] = number_of_.try_emplace(colour, c.numbers[m]);
      if (!added && known->second != c.numbers[m])
        return false;
      if (added) {
        signature->push_back(colour);
        signature->push_back(c.numbers[m]);
      }
    }
    return true;
  }

  void AddMembers(const LiveCommunicator& c, Signature* signature) {
    signature->resize(2);
    for (uint32_t m = 0; m < c.ranks.size(); ++m) {
      signature->push_back(c.ranks[m] == kNone ? kNone : result_.colour[c.ranks[m]]);
      signature->push_back(c.numbers[m]);
    }
  }

  std::vector<LiveCommunicator> communicators_;
  std::vector<uint32_t> conditions_;  // by communicator; equal ones have equal numbers
  std::vector<std::vector<Seat>> memberships_;         // by rank
  absl::flat_hash_map<uint32_t, uint32_t> number_of_;  // by colour; reused
  LiveColouring result_;
};

}  // namespace

LiveColouring RefineLiveColours(const std::vector<uint32_t>& initial,
                                std::vector<LiveCommunicator> communicators) {
  return Refinement(initial, std::move(communicators)).Run();
}

}  // namespace vrank::graph
