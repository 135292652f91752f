#include "virtual_gpu/api/dnn/refused_parts.h"

#include "base/guest/export.h"
#include "base/guest/refuse.h"
#include "virtual_gpu/api/dnn/handle.h"

namespace vrank::gpu::dnn {

void RefusePart(const char* what, std::atomic<bool>* said) {
  RefuseCall(
      "libcudnn.so.9", what,
      "of cuDNN only attention is; with torch.backends.cudnn.enabled = False "
      "PyTorch's own convolutions, batch normalisation, recurrent layers and CTC "
      "loss run; docs/cuda_compat.md",
      said);
}

}  // namespace vrank::gpu::dnn

// Where programs begin with a part that is not modelled; the rest of it is refused by
// name, too (symbols/cuda_13/libcudnn.so.9.symbols).
#define REFUSE_DESCRIPTOR(name)                                                   \
  extern "C" VRANK_EXPORT int name(void** descriptor) {                           \
    static std::atomic<bool> said;                                                \
    if (descriptor != nullptr)                                                    \
      *descriptor = nullptr;                                                      \
    vrank::gpu::dnn::RefusePart(#name, &said);                                    \
    return vrank::gpu::dnn::Fail(vrank::gpu::dnn::kNotSupported,                  \
                                 #name " is not modelled (docs/cuda_compat.md)"); \
  }
REFUSE_DESCRIPTOR(cudnnCreateActivationDescriptor)
REFUSE_DESCRIPTOR(cudnnCreateCTCLossDescriptor)
REFUSE_DESCRIPTOR(cudnnCreateConvolutionDescriptor)
REFUSE_DESCRIPTOR(cudnnCreateDropoutDescriptor)
REFUSE_DESCRIPTOR(cudnnCreateFilterDescriptor)
REFUSE_DESCRIPTOR(cudnnCreatePoolingDescriptor)
REFUSE_DESCRIPTOR(cudnnCreateRNNDescriptor)
REFUSE_DESCRIPTOR(cudnnCreateTensorDescriptor)
