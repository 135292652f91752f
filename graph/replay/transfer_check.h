// After the end of a run: sends that have no receive, although the job ran to its end
// since they fit into their channel's credit.
//
// Thread rule: one thread; between runs. Reports an error of the job as its result.

#ifndef VRANK_GRAPH_REPLAY_TRANSFER_CHECK_H_
#define VRANK_GRAPH_REPLAY_TRANSFER_CHECK_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/replay/blocked_ranks.h"
#include "graph/replay/communicators.h"
#include "graph/replay/current_folding.h"
#include "graph/replay/live_folding.h"
#include "graph/replay/rank_results.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/unmatched_sends.h"

namespace vrank::graph {

template <class Step>
class TransferCheck {
 public:
  TransferCheck(const RankTable& ranks, const Communicators<Step>& communicators,
                const CurrentFolding& current, LiveFolding<Step>& folding,
                const RankResults& results)
      : ranks_(ranks),
        communicators_(communicators),
        current_(current),
        folding_(folding),
        results_(results) {}

  // As Engine::CheckTransfersMatched. Unfolds ranks where it finds some.
  absl::Status Check();

 private:
  // Some communicator of those that run has some, or had when it was dropped.
  bool AnyWhileFolded() const;
  std::vector<UnmatchedSends> All() const;
  absl::Status ErrorOf(const std::vector<UnmatchedSends>& all) const;

  const RankTable& ranks_;
  const Communicators<Step>& communicators_;
  const CurrentFolding& current_;
  LiveFolding<Step>& folding_;
  const RankResults& results_;
};

template <class Step>
absl::Status TransferCheck<Step>::Check() {
  if (current_.on()) {
    if (!AnyWhileFolded())
      return absl::OkStatus();
    folding_.Unfold();
  }
  const std::vector<UnmatchedSends> all = All();
  return all.empty() ? absl::OkStatus() : ErrorOf(all);
}

template <class Step>
bool TransferCheck<Step>::AnyWhileFolded() const {
  std::vector<UnmatchedSends> found = communicators_.kept_unmatched();
  for (const Folding::Family& family : current_->families) {
    if (!family.instances.empty())
      FindUnmatched(communicators_[family.instances[0]], &found);
  }
  return !found.empty();
}

template <class Step>
std::vector<UnmatchedSends> TransferCheck<Step>::All() const {
  std::vector<UnmatchedSends> all = communicators_.kept_unmatched();
  // Those that were dropped are empty.
  for (uint32_t i = 0; i < communicators_.taken(); ++i)
    FindUnmatched(communicators_[i], &all);
  return all;
}

template <class Step>
absl::Status TransferCheck<Step>::ErrorOf(
    const std::vector<UnmatchedSends>& all) const {
  const UnmatchedSends& first = *std::min_element(all.begin(), all.end());
  const std::string others =
      all.size() == 1
          ? ""
          : fmt::format(" ({} more pairs of members have such)", all.size() - 1);
  return absl::InvalidArgumentError(fmt::format(
      "communicator '{}': send #{} from {} (index {}) to {} (index {}), {} bytes, has "
      "no receive: rank {} sends {}, rank {} receives from it {}, and its program has "
      "ended after {} ops{}; post the receive, or leave the send out",
      first.communicator, first.sequence, ranks_.Describe(first.from), first.from_index,
      ranks_.Describe(first.to), first.to_index, first.bytes, first.from,
      Times(first.sent), first.to, Times(first.sequence), results_.Of(first.to).ops,
      others));
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_TRANSFER_CHECK_H_
