// What an operation graph computes.
//
// Thread rule: pure functions of descriptors that no thread changes meanwhile.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_GRAPH_READER_H_
#define VRANK_VIRTUAL_GPU_API_DNN_GRAPH_READER_H_

#include <string>

#include "virtual_gpu/api/dnn/computation.h"
#include "virtual_gpu/api/dnn/descriptor.h"

namespace vrank::gpu::dnn {

// Empty where the graph is not modelled; `why` then names what it is.
Computations ReadGraph(const Descriptor& graph, const protocol::GpuProperties& gpu,
                       std::string* why);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_GRAPH_READER_H_
