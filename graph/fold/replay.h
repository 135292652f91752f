// Replays a whole job by playing one rank of each colour.
//
// The results are those of a replay in which every rank is played, byte for byte: times
// with their ledgers, peaks, every end. Where a job does not run to its end, it is
// played unfolded, since an error must name the ranks that it concerns.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_FOLD_REPLAY_H_
#define VRANK_GRAPH_FOLD_REPLAY_H_

#include <cstdint>
#include <memory>

#include <absl/status/statusor.h>

#include "graph/fold/colours.h"
#include "graph/fold/quotient.h"
#include "graph/fold/unfolder.h"
#include "graph/replay/timeline_observer.h"

namespace vrank::graph {

// Each may be nullptr.
struct ReplayObservers {
  EngineObserver* every_rank = nullptr;  // told of all ranks, folded or not
  EngineObserver* played = nullptr;      // told of the ranks that are played
  TimelineObserver* timeline = nullptr;  // likewise
  // False: every_rank is told of ranges alone. Operations and communicators of all
  // ranks cost more than playing them.
  bool operations = true;
};

class FoldedReplay {
 public:
  // `job` and `network` outlive it.
  FoldedReplay(const ResolvedJob* job, const Colouring& colouring,
               const NetworkModel* network, const ReplayObservers& observers);

  // Plays all. An error where the job has one, or where it comes to a halt.
  absl::Status Run();

  // Of any rank of the job, after Run.
  RankResult result(int32_t world_rank) const;
  uint64_t ops() const;         // over all ranks
  uint64_t played_ops() const;  // ... those that were played
  const Quotient& quotient() const { return quotient_; }

 private:
  const ResolvedJob* job_;
  Quotient quotient_;
  Unfolder unfolder_;
  Engine engine_;
};

// Resolves, colours and plays; unfolded where folding meets an error. The replay refers
// to `job`, which must be kept.
absl::StatusOr<std::unique_ptr<FoldedReplay>> ReplayFolded(
    const ResolvedJob& job, const NetworkModel& network,
    const ReplayObservers& observers);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FOLD_REPLAY_H_
