// Arithmetic on one element type at a time: what a reduction does to bytes.
//
// NCCL reduces in the element type itself: every step's sum is rounded to it. So does
// this file; types narrower than 32 bits are widened to float for the step and rounded
// to the nearest even value afterwards. Integers wrap around as they do on the device.
//
// Thread rule: pure functions.

#ifndef VRANK_EMULATOR_PAYLOAD_ELEMENT_H_
#define VRANK_EMULATOR_PAYLOAD_ELEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/schema/op.h"

namespace vrank::emulator {

// accumulator[i] = reduction(accumulator[i], next[i]).
// kAvg adds (see Average), kPreMulSum too: what comes has been multiplied.
// REQUIRES: equal sizes, a multiple of the element size.
void Accumulate(graph::ElementType type, graph::Reduction reduction,
                std::span<std::byte> accumulator, std::span<const std::byte> next);

// The two halves of an average over `members`: floating-point values are multiplied by
// 1/members, rounded to their type, before they are added (hostToDevRedOp in NCCL's
// src/enqueue.cc); integers are divided once at the end.
void AverageBefore(graph::ElementType type, uint64_t members,
                   std::span<std::byte> values);
void AverageAfter(graph::ElementType type, uint64_t members,
                  std::span<std::byte> values);

// values[i] = values[i] * numerator / denominator: a sum over `denominator` real
// members becomes the sum over `numerator` members of which the others mirror them.
void Scale(graph::ElementType type, uint64_t numerator, uint64_t denominator,
           std::span<std::byte> values);

// values[i] = values[i] ^ exponent, rounded once: a product of `exponent` equal
// factors.
void Raise(graph::ElementType type, uint64_t exponent, std::span<std::byte> values);

// One element as a number, for tests and reports.
double ToDouble(graph::ElementType type, const std::byte* element);
void FromDouble(graph::ElementType type, double value, std::byte* element);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_PAYLOAD_ELEMENT_H_
