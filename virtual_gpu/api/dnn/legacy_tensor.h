// A cudnnTensorDescriptor_t: type, dimensions and strides, for the calls that came
// before the graph API.
//
// Thread rule: as in cuDNN, one thread at a time uses a descriptor.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_LEGACY_TENSOR_H_
#define VRANK_VIRTUAL_GPU_API_DNN_LEGACY_TENSOR_H_

#include <cstdint>
#include <vector>

#include "virtual_gpu/api/dnn/cudnn_abi.h"

struct cudnnTensorStruct {
  static constexpr uint64_t kValid = 0x76726475'74656e73;
  uint64_t magic = kValid;
  vrank::gpu::dnn::DataType type{};
  std::vector<int> dimensions, strides;  // empty: not set yet
};

namespace vrank::gpu::dnn {

// Valid and set.
inline bool IsSet(const cudnnTensorStruct* tensor) {
  return tensor != nullptr && tensor->magic == cudnnTensorStruct::kValid &&
         !tensor->dimensions.empty();
}

inline uint64_t ElementsOf(const cudnnTensorStruct& tensor) {
  uint64_t elements = 1;
  for (int each : tensor.dimensions)
    elements *= static_cast<uint64_t>(each);
  return elements;
}

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_LEGACY_TENSOR_H_
