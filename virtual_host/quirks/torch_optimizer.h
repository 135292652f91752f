// Steps of PyTorch's optimizers as NVTX marks: where iterations end, whatever kernels
// the optimizer has, and in programs that annotate nothing.
//
// Thread rule: any thread, with any lock held.

#ifndef VRANK_VIRTUAL_HOST_QUIRKS_TORCH_OPTIMIZER_H_
#define VRANK_VIRTUAL_HOST_QUIRKS_TORCH_OPTIMIZER_H_

namespace vrank::host {

// From soon on, each step of an optimizer ends with a mark "vrank::optimizer_step N"; N
// is the optimizer, from 1 in the order of their first steps (read by
// graph/iterations/rank_iterations.h). Python's main thread registers the hook, at its
// next bytecode. Steps that torch.compile compiles make no marks: its graphs are the
// program's. Nothing in a program without PyTorch, or with one that lacks such hooks.
void MarkOptimizerSteps();

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_QUIRKS_TORCH_OPTIMIZER_H_
