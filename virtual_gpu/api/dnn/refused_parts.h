// What of cuDNN is not modelled: refused by name, with a word on what helps.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_REFUSED_PARTS_H_
#define VRANK_VIRTUAL_GPU_API_DNN_REFUSED_PARTS_H_

#include <atomic>

namespace vrank::gpu::dnn {

// Counts the refusal of an operation graph and, once, reports it and what helps. `said`
// belongs to the caller.
void RefuseGraph(const char* what, std::atomic<bool>* said);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_REFUSED_PARTS_H_
