// Which ranks run in lock step: those that do the same at the same costs, and, where
// these are too few to fill a vector, those that do the same at costs of their own, or
// at least all but work alike (shape.h).
//
// Thread rule: function of its arguments.

#ifndef VRANK_GRAPH_SWEEP_CLASSES_H_
#define VRANK_GRAPH_SWEEP_CLASSES_H_

#include <cstdint>
#include <deque>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/fold/job.h"
#include "graph/sweep/code.h"
#include "graph/sweep/sweep.h"

namespace vrank::graph {

struct SweepPart {
  uint32_t rank = 0;  // place in the job
  const SweepCode* code = nullptr;
};
struct SweepClass {
  std::vector<SweepPart> parts;  // by rank; their codes have one skeleton
  bool one_shape = true;         // ... and one shape
};

// `codes` gets the code of each program, at each speed of work and jitter that it is
// played with. Unimplemented: CompileSweep.
absl::StatusOr<std::vector<SweepClass>> SweepClasses(const ReplayJob& job,
                                                     const SweepOptions& options,
                                                     const LedgerSet& ledgers,
                                                     VectorUnit unit,
                                                     std::deque<SweepCode>* codes);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_CLASSES_H_
