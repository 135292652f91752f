// What a top-k chooses among values that nothing has computed: made up.
//
// A router of experts scores tokens by a matrix product, whose result is unknown, and
// takes the k best experts of each. From these places follow the sizes of all that
// comes next: rows per expert, sent and received. Read as zero, no expert would have a
// row. Here slices take the places in turn, so that all are chosen equally often, as
// often as that can be: what routers are trained for, and the same on all ranks. The
// values that go with the places descend from 1. Both count as `made_up_choices`, and
// are marked as made up (Origin::made_up), as is what kernels compute from them.
//
// Known scores are computed elsewhere; this leaves them alone.
//
// Thread rule: a pure function.

#ifndef VRANK_VIRTUAL_GPU_CORE_MADE_UP_CHOICES_H_
#define VRANK_VIRTUAL_GPU_CORE_MADE_UP_CHOICES_H_

#include <string_view>

namespace vrank::gpu {

// The type of the scores of PyTorch's top-k over slices that one block sorts
// (element_type.h), which the name tells; 0: another kernel.
char ParseTopK(std::string_view mangled);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_MADE_UP_CHOICES_H_
