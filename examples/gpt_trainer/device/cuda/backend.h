// The CUDA backend's types; see device/device.h for the seam.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_CUDA_BACKEND_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_CUDA_BACKEND_H_

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

namespace gpt {

using Element = __nv_bfloat16;
using StreamHandle = cudaStream_t;
using EventHandle = cudaEvent_t;
using CommunicatorHandle = ncclComm_t;
using MultiplyHandle = cublasHandle_t;

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_CUDA_BACKEND_H_
