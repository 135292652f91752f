// Which list of tensors a kernel takes as its first parameter, by its name
// (base/guest/tensor_list.h has what the lists are).
//
// Thread rule: a pure function.

#ifndef VRANK_VIRTUAL_GPU_CORE_TENSOR_LIST_NAME_H_
#define VRANK_VIRTUAL_GPU_CORE_TENSOR_LIST_NAME_H_

#include <string_view>

#include "base/guest/tensor_list.h"

namespace vrank::gpu {

// Kind::kNone: no multi_tensor_apply_kernel, or one of another list.
TensorList ParseTensorList(std::string_view mangled);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_TENSOR_LIST_NAME_H_
