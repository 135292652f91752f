// Aligns two sequences of actions that end alike.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_ITERATIONS_ALIGNMENT_H_
#define VRANK_GRAPH_ITERATIONS_ALIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace vrank::graph {

struct AlignedPlaces {
  size_t reference = 0, segment = 0;
};

// The first place of `reference`, at `from` or later, from which `segment` does the
// same up to the end, insertions and omissions aside. Equal windows of a few actions
// are paired by their number from the end; a pair counts if most of the pairs that
// follow it keep its distance. If none does, actions that one of them alone has are
// left out (sums of gradients, from the second micro batch on). nullopt: none does
// then.
std::optional<AlignedPlaces> FirstAligned(std::span<const uint32_t> reference,
                                          std::span<const uint32_t> segment,
                                          size_t from);

// The first place of the reference from which, up to an aligned place, the segment
// contains most windows of the reference in the same order. Other actions may stand
// between them (a compiler measures kernels), so that FirstAligned finds no place
// there. `aligned.reference` if there is none.
size_t FirstInOrder(std::span<const uint32_t> reference,
                    std::span<const uint32_t> segment, const AlignedPlaces& aligned);

// The share of the larger sequence's actions that both have, in any order: 1 for equal
// ones, 1 for two empty ones.
double Similarity(std::span<const uint32_t> a, std::span<const uint32_t> b);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_ITERATIONS_ALIGNMENT_H_
