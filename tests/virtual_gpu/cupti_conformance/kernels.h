// Two kernels to trace.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CUPTI_CONFORMANCE_KERNELS_H_
#define VRANK_TESTS_VIRTUAL_GPU_CUPTI_CONFORMANCE_KERNELS_H_

#include <cuda_runtime_api.h>

namespace conformance {

void LaunchFill(float* data, int count, cudaStream_t stream);   // 2 blocks of 64
void LaunchScale(float* data, int count, cudaStream_t stream);  // 4 blocks of 32

}  // namespace conformance

#endif  // VRANK_TESTS_VIRTUAL_GPU_CUPTI_CONFORMANCE_KERNELS_H_
