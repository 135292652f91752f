// Names of element-wise kernels as libtorch_cuda 2.11 registers them.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CORE_ELEMENT_NAMES_H_
#define VRANK_TESTS_VIRTUAL_GPU_CORE_ELEMENT_NAMES_H_

#include <string>

namespace vrank::gpu {

inline std::string Vectorized(const std::string& functor, int operands) {
  return "_ZN2at6native29vectorized_elementwise_kernelILi4E" + functor +
         "St5arrayIPcLm" + std::to_string(operands) + "EEEEviT0_T1_";
}

}  // namespace vrank::gpu

#endif  // VRANK_TESTS_VIRTUAL_GPU_CORE_ELEMENT_NAMES_H_
