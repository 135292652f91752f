// libcudnn's version: none. PyTorch asks before it chooses attention kernels; a real
// version would send it to cuDNN's, of which nothing is modelled. The answer changes
// which kernels run, so each question is counted (`refused_calls`). Convolutions, batch
// normalisation and recurrent layers ask for more, and fail; what helps there is said.

#include <atomic>
#include <cstddef>

#include "base/guest/channel.h"
#include "base/guest/export.h"
#include "base/guest/refuse.h"

extern "C" VRANK_EXPORT size_t cudnnGetVersion() {
  if (vrank::Channel* const channel = vrank::FindChannel())
    channel->Count(vrank::LossId::kRefusedCall, 1, "cudnnGetVersion");
  return 0;
}

namespace {

constexpr int kNotSupported = 3000;  // CUDNN_STATUS_NOT_SUPPORTED

// The first call of a program's that wants cuDNN to work says what helps.
int Refuse(const char* name) {
  static std::atomic<bool> said;
  if (!said.load())
    vrank::RawLog("libcudnn.so.9",
                  "cuDNN is not modelled; PyTorch's own convolutions, batch "
                  "normalisation and recurrent layers run with "
                  "torch.backends.cudnn.enabled = False");
  vrank::RefuseCall("libcudnn.so.9", name, "docs/cuda_compat.md", &said);
  return kNotSupported;
}

}  // namespace

extern "C" VRANK_EXPORT int cudnnCreate(void** handle) {
  if (handle != nullptr)
    *handle = nullptr;
  return Refuse("cudnnCreate");
}

extern "C" VRANK_EXPORT int cudnnGetProperty(int /*libraryPropertyType*/, int* value) {
  if (value != nullptr)
    *value = 0;
  return Refuse("cudnnGetProperty");
}

// Part of a message about a call that has failed: no call of its own to be told about.
extern "C" VRANK_EXPORT const char* cudnnGetErrorString(int status) {
  return status == 0 ? "success" : "a call that vrank refuses";
}
