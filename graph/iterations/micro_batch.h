// A forward and backward pass, as the reference iteration has it. Iterations have
// different numbers of them: accumulation of gradients grows, or an epoch ends. What
// precedes an aligned part may therefore be of the same iteration, or an evaluation,
// which begins alike, but has no kernels of a backward pass.
//
// Thread rule: immutable.

#ifndef VRANK_GRAPH_ITERATIONS_MICRO_BATCH_H_
#define VRANK_GRAPH_ITERATIONS_MICRO_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>

#include "graph/iterations/alignment.h"
#include "graph/iterations/iteration_finder.h"

namespace vrank::graph {

class MicroBatch {
 public:
  // Of an iteration that ends with parameter updates: the last one, as far back as it
  // takes to have most kinds of kernels. It views the actions and their kinds.
  MicroBatch(std::span<const uint32_t> reference, const ActionKinds& kinds);

  // Whether these actions are forward and backward passes.
  bool IsIn(std::span<const uint32_t> actions) const;
  // Where a segment begins that aligns there with a reference that begins at `first`.
  // Actions that differ precede the aligned place; but where those are most of a micro
  // batch, the segment has fewer of them.
  size_t BeginOf(const AlignedPlaces& aligned, size_t first) const;
  // The first of the micro batches that precede `begin` one after the other, without an
  // update in between; `begin` if there is none.
  size_t BeginOfFirst(std::span<const uint32_t> segment, size_t begin) const;

 private:
  const ActionKinds& kinds_;
  // Kernel kinds of both passes, and of the backward pass only.
  std::unordered_set<uint32_t> kernels_, backward_;
  std::span<const uint32_t> passes_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_ITERATIONS_MICRO_BATCH_H_
