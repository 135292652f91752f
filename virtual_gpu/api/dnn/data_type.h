// Types of a tensor's elements.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_DATA_TYPE_H_
#define VRANK_VIRTUAL_GPU_API_DNN_DATA_TYPE_H_

#include <cstdint>

#include "virtual_gpu/api/dnn/cudnn_abi.h"

namespace vrank::gpu::dnn {

// Of one element; 0 for types that no model here has.
inline uint32_t ElementBytes(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return 4;
    case DataType::kDouble:
      return 8;
    case DataType::kHalf:
    case DataType::kBfloat16:
      return 2;
  }
  return 0;
}

// As an argument of a template in a mangled name.
inline const char* MangledType(DataType type) {
  switch (type) {
    case DataType::kHalf:
      return "6__half";
    case DataType::kBfloat16:
      return "13__nv_bfloat16";
    case DataType::kDouble:
      return "d";
    case DataType::kFloat:
      break;
  }
  return "f";
}

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_DATA_TYPE_H_
