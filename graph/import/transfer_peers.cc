#include "graph/import/transfer_peers.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "graph/import/clock_difference.h"

namespace vrank::graph {
namespace {

// A part whose peer is not known.
struct OpenPart {
  int32_t rank = 0;
  int64_t end_ns = 0;
  TransferPart* part = nullptr;
  std::set<int32_t> candidates;
};

// Parts that may be of one transfer, each side in the order of their ends.
struct Kind {
  std::vector<OpenPart> sends, receives;
};
using KindKey = std::tuple<std::string, ElementType, uint64_t>;  // group, type, size

void SortByEnd(std::vector<OpenPart>* parts) {
  std::sort(parts->begin(), parts->end(),
            [](const OpenPart& a, const OpenPart& b) { return a.end_ns < b.end_ns; });
}

// Other ranks with a part that ends at the same time. REQUIRES: `others` is sorted.
void FindCandidates(const std::vector<OpenPart>& others, OpenPart* open) {
  auto other = std::lower_bound(
      others.begin(), others.end(), open->end_ns - kClockNoiseNs,
      [](const OpenPart& part, int64_t ns) { return part.end_ns < ns; });
  for (; other != others.end() && other->end_ns <= open->end_ns + kClockNoiseNs;
       ++other)
    if (other->rank != open->rank)
      open->candidates.insert(other->rank);
}

class Inference {
 public:
  explicit Inference(std::vector<RankCommunication>* ranks) {
    for (RankCommunication& one : *ranks)
      for (TransferUse& use : one.transfers)
        for (TransferPart& part : use.parts)
          if (part.peer == kUnknownPeer)
            Add(one, use, &part);
  }

  void Run() {
    for (auto& [key, kind] : kinds_) {
      SortByEnd(&kind.sends);
      SortByEnd(&kind.receives);
      for (OpenPart& send : kind.sends)
        FindCandidates(kind.receives, &send);
      for (OpenPart& receive : kind.receives)
        FindCandidates(kind.sends, &receive);
    }
    ForAll([this](OpenPart* open) {
      if (open->candidates.size() == 1)
        certain_.insert(TransferWith(*open, *open->candidates.begin()));
    });
    ForAll([this](OpenPart* open) { Decide(open); });
  }

 private:
  // From, to.
  using Direction = std::pair<int32_t, int32_t>;

  void Add(const RankCommunication& one, const TransferUse& use, TransferPart* part) {
    Kind& kind = kinds_[{use.group, part->type, part->elements}];
    (part->is_send ? kind.sends : kind.receives)
        .push_back({one.rank, one.recording->works[use.work].time.end_ns, part, {}});
  }

  template <typename Visit>
  void ForAll(Visit visit) {
    for (auto& [key, kind] : kinds_)
      for (std::vector<OpenPart>* side : {&kind.sends, &kind.receives})
        for (OpenPart& open : *side)
          visit(&open);
  }

  static Direction TransferWith(const OpenPart& open, int32_t peer) {
    return open.part->is_send ? Direction(open.rank, peer) : Direction(peer, open.rank);
  }

  void Decide(OpenPart* open) const {
    std::set<int32_t>& left = open->candidates;
    if (left.size() > 1)
      std::erase_if(left, [&](int32_t peer) {
        return certain_.count(TransferWith(*open, peer)) == 0;
      });
    if (left.size() == 1)
      open->part->peer = *left.begin();
  }

  std::map<KindKey, Kind> kinds_;
  std::set<Direction> certain_;
};

}  // namespace

void InferPeers(std::vector<RankCommunication>* ranks,
                std::map<int32_t, ImportLosses>* losses) {
  std::vector<std::vector<bool>> asked;  // by rank, by use
  for (const RankCommunication& one : *ranks) {
    asked.emplace_back();
    for (const TransferUse& use : one.transfers)
      asked.back().push_back(std::any_of(
          use.parts.begin(), use.parts.end(),
          [](const TransferPart& part) { return part.peer == kUnknownPeer; }));
  }
  Inference(ranks).Run();
  for (size_t rank = 0; rank < ranks->size(); ++rank) {
    RankCommunication& one = (*ranks)[rank];
    for (size_t i = 0; i < one.transfers.size(); ++i) {
      TransferUse& use = one.transfers[i];
      if (!asked[rank][i])
        continue;
      const size_t open = std::erase_if(use.parts, [](const TransferPart& part) {
        return part.peer == kUnknownPeer;
      });
      use.is_complete &= open == 0;
      if (use.parts.empty())
        ++(*losses)[one.rank][ImportLoss::kPointToPoint];
      else
        ++(*losses)[one.rank][ImportLoss::kInferredPeers];
    }
    std::erase_if(one.transfers,
                  [](const TransferUse& use) { return use.parts.empty(); });
  }
}

}  // namespace vrank::graph
