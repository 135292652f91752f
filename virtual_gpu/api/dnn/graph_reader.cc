#include "virtual_gpu/api/dnn/graph_reader.h"

#include "virtual_gpu/api/dnn/attention.h"
#include "virtual_gpu/api/dnn/convolution.h"

namespace vrank::gpu::dnn {

Computations ReadGraph(const Descriptor& graph, const protocol::GpuProperties& gpu,
                       std::string* why) {
  if (HasConvolution(graph))
    return ReadConvolution(graph, gpu, why);
  std::shared_ptr<const Attention> attention = ReadAttention(graph, why);
  return attention == nullptr ? Computations() : Computations{std::move(attention)};
}

}  // namespace vrank::gpu::dnn
