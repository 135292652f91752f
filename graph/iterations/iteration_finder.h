// Finds training iterations in what a program does, where it does not annotate them.
//
// Input: the *actions* of one rank in program order, each an integer that names what
// was done (a kernel, an operation, a wait) without its sizes. Three methods, tried in
// order:
//
// 1. Steps. PyTorch says when an optimizer has stepped, and which one
//    (virtual_host/quirks/torch_optimizer.cc): each step ends a segment. Steps of
//    several optimizers that come in a cycle form one iteration. Where kernels update
//    more parameters behind the last step than before (a CUDA graph that holds the
//    step is launched again and again), steps do not count.
// 2. Updates. Kernels that update parameters divide the sequence: each burst of them
//    ends a segment. Segments that alternate (two optimizers) form one iteration.
//    In both, the segment that all others resemble is the reference; aligning it with
//    the other segments from their end shows where an iteration begins: after
//    initialisation in the first segment, after an evaluation in a later one. Micro
//    batches in front of the aligned part belong to the iteration (micro_batch.h).
// 3. Period. Without parameter updates: the distance at which the sequence repeats
// best,
//    if nearly all actions repeat at it, three periods are there, and something in it
//    computes or communicates: a model that is copied to its GPU trains nothing.
//
// Gradient accumulation, pipeline schedules and layers repeat within an iteration;
// methods 1 and 2 do not see them, and in method 3 the iteration repeats better than
// its parts.
//
// Cost: linear in the number of actions, times the candidates for a period (64 at
// most).
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_ITERATIONS_ITERATION_FINDER_H_
#define VRANK_GRAPH_ITERATIONS_ITERATION_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace vrank::graph {

enum class IterationEvidence : uint8_t {
  kAnnotation,     // ranges of the program (NVTX, torch.profiler)
  kOptimizer,      // steps of optimizers, or kernels that update parameters
  kPeriod,         // a sequence that repeats
  kCommunication,  // a sequence of communications that does (collective_rhythm.h)
};
// "annotation", "optimizer", "period", "communication".
const char* Name(IterationEvidence evidence);

// Actions [begin, end).
struct ActionSpan {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  friend bool operator==(const ActionSpan&, const ActionSpan&) = default;
};

struct FoundIterations {
  std::vector<ActionSpan> spans;  // ascending, disjoint; empty: none were found
  IterationEvidence evidence = IterationEvidence::kOptimizer;
  // How much of an iteration is what the reference does, actions in any order: 1 where
  // all but the first are alike. The least similar one behind the first counts.
  double regularity = 0;
};

// By action.
struct ActionKinds {
  std::vector<bool> updates;   // it updates parameters
  std::vector<bool> computes;  // it is a kernel that is no communication
  std::vector<bool> works;     // it computes or communicates: no copy, no wait
  // By action: the optimizer that has stepped, from 1. Other actions are not there.
  std::map<uint32_t, uint32_t> steps = {};
};
// REQUIRES: every action indexes the first three.
FoundIterations FindIterations(std::span<const uint32_t> actions,
                               const ActionKinds& kinds);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_ITERATIONS_ITERATION_FINDER_H_
