// Every CUDA, cuBLAS and NCCL call is checked: file, line, call and the library's
// words.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_CUDA_CUDA_CHECKS_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_CUDA_CUDA_CHECKS_H_

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "examples/gpt_trainer/device/checks.h"

#define GPT_CHECK_CUDA(call)                                                  \
  do {                                                                        \
    const cudaError_t gpt_status = (call);                                    \
    if (gpt_status != cudaSuccess) [[unlikely]] {                             \
      ::gpt::Fail(__FILE__, __LINE__, #call, cudaGetErrorString(gpt_status)); \
    }                                                                         \
  } while (false)

#define GPT_CHECK_CUBLAS(call)                                                   \
  do {                                                                           \
    const cublasStatus_t gpt_status = (call);                                    \
    if (gpt_status != CUBLAS_STATUS_SUCCESS) [[unlikely]] {                      \
      ::gpt::Fail(__FILE__, __LINE__, #call, cublasGetStatusString(gpt_status)); \
    }                                                                            \
  } while (false)

#define GPT_CHECK_NCCL(call)                                                  \
  do {                                                                        \
    const ncclResult_t gpt_status = (call);                                   \
    if (gpt_status != ncclSuccess) [[unlikely]] {                             \
      ::gpt::Fail(__FILE__, __LINE__, #call, ncclGetErrorString(gpt_status)); \
    }                                                                         \
  } while (false)

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_CUDA_CUDA_CHECKS_H_
