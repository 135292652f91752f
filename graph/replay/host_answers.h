// Answers to what the host of a rank asks the engine: waits, queries, clocks.
//
// The process of a real rank waits for them, through the observer. The program of a
// virtual rank already contains the answers of its queries, which are only compared
// with the ends.
//
// Thread rule: one thread. Times: nanoseconds of the run. No errors.

#ifndef VRANK_GRAPH_REPLAY_HOST_ANSWERS_H_
#define VRANK_GRAPH_REPLAY_HOST_ANSWERS_H_

#include <cstdint>

#include "graph/replay/engine.h"
#include "graph/replay/rank_state.h"

namespace vrank::graph {

// A small value: parts that answer hold a copy.
template <class Step>
class HostAnswers {
 public:
  explicit HostAnswers(EngineObserver* observer) : observer_(observer) {}

  // `op` of a rank is complete, for which the host's clock has been raised already.
  void Answer(RankState& r, uint64_t op, const Stamp& end, uint64_t value) {
    if (r.options.real) {
      observer_->OnHostAnswer(r.world_rank, op, r.host, end,
                              r.launches.Retired(r.host.ns), value);
    }
  }

  // ... of a helper thread that asked at `asked_ns` of the host's clock. The answer's
  // clock is the helper's own. It reports no launches: the host has not waited for any.
  void AnswerHelper(const RankState& r, uint64_t op, int64_t asked_ns,
                    const Stamp& end) {
    if (!r.options.real)
      return;
    Stamp clock;
    clock.ns = asked_ns;
    Step::HostWait(clock, end);
    observer_->OnHostAnswer(r.world_rank, op, clock, end, 0, 0);
  }

  // Counts a query whose answer in the program is not what follows from the end.
  static void CheckQuery(RankState& r, int64_t host_ns, uint32_t answer,
                         const Stamp& end) {
    Stamp asked;
    asked.ns = host_ns;
    if (Step::HasEnded(end, asked) != (answer == kAnswerComplete))
      ++r.divergences;
  }

  // A real rank has taken or given back device memory.
  void ReportMemory(const RankState& r, const Op& op) {
    if (r.options.real)
      observer_->OnMemory(r.world_rank, op, r.host.ns);
  }

 private:
  EngineObserver* observer_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_HOST_ANSWERS_H_
