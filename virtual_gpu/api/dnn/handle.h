// A cudnnHandle_t: the stream of the calls that follow. And what the last failed call
// of a thread has to say.
//
// Thread rule: as in cuDNN, one handle is used by one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_HANDLE_H_
#define VRANK_VIRTUAL_GPU_API_DNN_HANDLE_H_

#include <cstdint>
#include <string>

#include "virtual_gpu/api/dnn/cudnn_abi.h"

struct cudnnContext {
  static constexpr uint64_t kValid = 0x76726475'64684e4e;
  uint64_t magic = kValid;
  void* stream = nullptr;
  int device = 0;
  uint64_t memory = 0;  // device memory that came with it; 0: none
};

namespace vrank::gpu::dnn {

inline bool IsHandle(const cudnnContext* handle) {
  return handle != nullptr && handle->magic == cudnnContext::kValid;
}

// Keeps the message for cudnnGetLastErrorString; returns `status`.
int Fail(Status status, std::string message);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_HANDLE_H_
