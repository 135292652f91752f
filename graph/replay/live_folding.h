// When the ranks of a running engine are folded and unfolded.
//
// Ranks that read one program are stopped at horizons. Where nothing moves and enough
// has run since the last try, those in one state are folded (LiveFolder). Then there
// are no horizons. An op that would part them holds its host up until nothing else
// moves; then every rank is unfolded (LiveUnfolder), and runs for itself until the next
// try. So what a program does later need not be known, and nothing is undone.
//
// Thread rule: one thread; between turns. Steps and horizons count ops. No errors.

#ifndef VRANK_GRAPH_REPLAY_LIVE_FOLDING_H_
#define VRANK_GRAPH_REPLAY_LIVE_FOLDING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/replay/aborts.h"
#include "graph/replay/current_folding.h"
#include "graph/replay/inits.h"
#include "graph/replay/live_folder.h"
#include "graph/replay/live_unfolder.h"
#include "graph/replay/program_readers.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

template <class Step>
class LiveFolding {
 public:
  // `may_fold`: otherwise ranks are never folded. `step`: EngineOptions::fold_step.
  LiveFolding(bool may_fold, uint64_t step, const RankTable& ranks,
              const Worklist& worklist, ProgramReaders& programs,
              const Inits<Step>& inits, const Aborts<Step>& aborts,
              const CurrentFolding& folding, LiveFolder<Step>& folder,
              LiveUnfolder<Step>& unfolder)
      : may_fold_(may_fold),
        step_(step),
        ranks_(ranks),
        worklist_(worklist),
        programs_(programs),
        inits_(inits),
        aborts_(aborts),
        folding_(folding),
        folder_(folder),
        unfolder_(unfolder) {}

  bool on() const { return folding_.on(); }

  // A rank has been added that reads this program.
  void AddReader(uint32_t program);
  // Nothing else moves: folds or unfolds, if that is due. True: now something moves.
  bool Change();
  // REQUIRES: on().
  void Unfold();

 private:
  bool TimeToFold() const;
  bool RaiseHorizons();
  void Look();
  uint64_t CursorOfFirst(uint32_t program) const {
    return ranks_[programs_.ranks(program)[0]].cursor;
  }

  const bool may_fold_;
  uint64_t step_;
  const RankTable& ranks_;
  const Worklist& worklist_;
  ProgramReaders& programs_;
  const Inits<Step>& inits_;
  const Aborts<Step>& aborts_;
  const CurrentFolding& folding_;
  LiveFolder<Step>& folder_;
  LiveUnfolder<Step>& unfolder_;
  size_t shared_programs_ = 0;  // that several ranks read
  std::vector<uint64_t>
      looked_at_;  // by program: the first rank's cursor at the last try
};

template <class Step>
void LiveFolding<Step>::AddReader(uint32_t program) {
  looked_at_.resize(programs_.size());
  if (may_fold_ && programs_.ranks(program).size() == 2) {
    ++shared_programs_;
    programs_.SetHorizon(program, step_);
  }
}

template <class Step>
bool LiveFolding<Step>::Change() {
  if (shared_programs_ == 0)
    return false;
  if (folding_.on()) {
    if (folding_.unfold_wanted())
      Unfold();
    return worklist_.has_ranks();
  }
  if (TimeToFold() && inits_.settled() && !aborts_.any() && folder_.Settled()) {
    Look();
    if (!folder_.Fold())
      step_ *= 2;
  }
  return RaiseHorizons();
}

template <class Step>
bool LiveFolding<Step>::TimeToFold() const {
  uint64_t passed = 0, ranks = 0;
  for (uint32_t i = 0; i < programs_.size(); ++i) {
    const size_t readers = programs_.ranks(i).size();
    if (readers < 2)
      continue;
    ranks += readers;
    passed += readers * (CursorOfFirst(i) - looked_at_[i]);
  }
  return passed >= step_ * ranks;
}

template <class Step>
void LiveFolding<Step>::Look() {
  for (uint32_t i = 0; i < programs_.size(); ++i)
    looked_at_[i] = CursorOfFirst(i);
}

template <class Step>
bool LiveFolding<Step>::RaiseHorizons() {
  bool raised = false;
  for (uint32_t i = 0; i < programs_.size(); ++i) {
    const uint64_t horizon = programs_.horizon(i);
    if (horizon == ProgramReaders::kNoHorizon)
      continue;
    const bool stopped = programs_.IsStoppedAtHorizon(i);
    if (folding_.on())
      programs_.SetHorizon(i, ProgramReaders::kNoHorizon);
    else if (stopped)
      programs_.SetHorizon(i, horizon + step_);
    if (stopped)
      programs_.WakeStarved(i);
    raised |= stopped;
  }
  return raised;
}

template <class Step>
void LiveFolding<Step>::Unfold() {
  // Programs that are unfolded again and again are folded more seldom.
  constexpr uint64_t kLongestStep = 4096;
  unfolder_.Unfold();
  step_ = std::min(step_ * 2, std::max(step_, kLongestStep));
  Look();
  for (uint32_t i = 0; i < programs_.size(); ++i) {
    if (programs_.ranks(i).size() > 1)
      programs_.SetHorizon(i, looked_at_[i] + step_);
  }
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_LIVE_FOLDING_H_
