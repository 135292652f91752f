// Every CUDA, cuBLAS and NCCL call is checked: file, line, call and the library's
// words.
//
// A failed call ends the process at once, without destructors and exit handlers: after
// a device error both may block, and the launcher has to learn of it.

#ifndef EXAMPLES_GPT_TRAINER_CHECKS_H_
#define EXAMPLES_GPT_TRAINER_CHECKS_H_

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

namespace gpt {

[[noreturn]] void Fail(const char* file, int line, const char* call, const char* text);

}  // namespace gpt

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

// Checks a condition that only a mistake in this program can break.
#define GPT_CHECK(condition)                                        \
  do {                                                              \
    if (!(condition)) [[unlikely]] {                                \
      ::gpt::Fail(__FILE__, __LINE__, #condition, "does not hold"); \
    }                                                               \
  } while (false)

#endif  // EXAMPLES_GPT_TRAINER_CHECKS_H_
