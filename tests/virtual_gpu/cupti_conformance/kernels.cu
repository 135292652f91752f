#include "tests/virtual_gpu/cupti_conformance/kernels.h"

__global__ void FillKernel(float* data, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += gridDim.x * blockDim.x)
    data[i] = 1.0f;
}

__global__ void ScaleKernel(float* data, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += gridDim.x * blockDim.x)
    data[i] *= 2.0f;
}

namespace conformance {

void LaunchFill(float* data, int count, cudaStream_t stream) {
  FillKernel<<<2, 64, 0, stream>>>(data, count);
}

void LaunchScale(float* data, int count, cudaStream_t stream) {
  ScaleKernel<<<4, 32, 0, stream>>>(data, count);
}

}  // namespace conformance
