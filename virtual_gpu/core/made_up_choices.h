// What a top-k, or the largest of a few, chooses among values that nothing has
// computed: made up.
//
// A router of experts scores tokens by a matrix product, whose result is unknown, and
// takes the k best experts of each, or the best (argmax, max over a dimension). From
// these places follow the sizes of all that comes next: rows per expert, sent and
// received. Read as zero, no expert would have a row. Here slices take the places in
// turn, so that all are chosen equally often, as often as that can be: what routers are
// trained for, and the same on all ranks. The values that go with the places descend
// from 1. Both count as `made_up_choices`, and are marked as made up (Origin::made_up),
// as is what kernels compute from them.
//
// Known scores are computed by the interpreter. This is for those that it leaves: too
// many for its budget, too.
//
// Thread rule: pure functions; the GPU's lock guards the contents.

#ifndef VRANK_VIRTUAL_GPU_CORE_MADE_UP_CHOICES_H_
#define VRANK_VIRTUAL_GPU_CORE_MADE_UP_CHOICES_H_

#include <cstdint>
#include <string_view>

#include "virtual_gpu/core/gpu_types.h"

namespace vrank::gpu {

class Contents;

// The type of the scores of PyTorch's top-k over slices that one block sorts
// (element_type.h), which the name tells; 0: another kernel.
char ParseTopK(std::string_view mangled);

struct Choices {
  uint64_t slices = 0;
  uint64_t length = 0;  // of a slice
  uint64_t chosen = 1;  // of a slice
  // Where they go, in one piece each: int64_t places; values of the type
  // (element_type.h), none where it is 0.
  uint64_t places = 0, values = 0;
  char type = 0;
};
// How many places were made up, which are counted; 0: none, nothing was written.
uint64_t MakeUpChoices(const Choices& choices, const KernelLaunch& launch,
                       Contents& contents);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_MADE_UP_CHOICES_H_
