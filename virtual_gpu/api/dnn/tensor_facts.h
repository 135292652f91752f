// What tensor descriptors of a graph state.
//
// Thread rule: pure functions of descriptors that no thread changes meanwhile.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_TENSOR_FACTS_H_
#define VRANK_VIRTUAL_GPU_API_DNN_TENSOR_FACTS_H_

#include <cstdint>
#include <vector>

#include "virtual_gpu/api/dnn/descriptor.h"

namespace vrank::gpu::dnn {

// Neither between two operations nor a number by value.
inline bool InMemory(const Descriptor& tensor) {
  return tensor.Number<uint8_t>(AttributeName::kTensorIsVirtual).value_or(0) == 0 &&
         tensor.Number<uint8_t>(AttributeName::kTensorIsByValue).value_or(0) == 0;
}

inline std::vector<int64_t> Dimensions(const Descriptor* tensor) {
  return tensor == nullptr ? std::vector<int64_t>()
                           : tensor->Numbers<int64_t>(AttributeName::kTensorDimensions);
}

inline DataType TypeOf(const Descriptor& tensor) {
  return static_cast<DataType>(
      tensor.Number<int>(AttributeName::kTensorDataType).value_or(-1));
}

// -1 for operations that are not pointwise.
inline int PointwiseMode(const Descriptor& operation) {
  const Descriptor* const how =
      operation.Link(AttributeName::kOperationPointwiseDescriptor);
  return how == nullptr ? -1
                        : how->Number<int>(AttributeName::kPointwiseMode).value_or(-1);
}

// Adds the tensor's unique id where it is in memory.
inline void AddWritten(const Descriptor* result, std::vector<int64_t>* written) {
  if (result == nullptr || !InMemory(*result))
    return;
  if (const auto id = result->Number<int64_t>(AttributeName::kTensorUniqueId))
    written->push_back(*id);
}

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_TENSOR_FACTS_H_
