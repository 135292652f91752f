#include "virtual_gpu/api/dnn/refused_parts.h"

#include "base/guest/export.h"
#include "base/guest/refuse.h"
#include "virtual_gpu/api/dnn/handle.h"

namespace vrank::gpu::dnn {

void RefuseGraph(const char* what, std::atomic<bool>* said) {
  RefuseCall("libcudnn.so.9", what,
             "of cuDNN's graphs attention in half precision and convolutions are; with "
             "torch.backends.cudnn.enabled = False PyTorch's own kernels run; "
             "docs/cuda_compat.md",
             said);
}

}  // namespace vrank::gpu::dnn

// Where programs begin with a part that is not modelled; the rest of it is refused by
// name, too (symbols/cuda_13/libcudnn.so.9.symbols).
#define REFUSE_DESCRIPTOR(name, hint)                                               \
  extern "C" VRANK_EXPORT int name(void** descriptor) {                             \
    static std::atomic<bool> said;                                                  \
    if (descriptor != nullptr)                                                      \
      *descriptor = nullptr;                                                        \
    vrank::RefuseCall("libcudnn.so.9", #name, hint "; docs/cuda_compat.md", &said); \
    return vrank::gpu::dnn::Fail(vrank::gpu::dnn::kNotSupported,                    \
                                 #name " is not modelled (docs/cuda_compat.md)");   \
  }
#define PYTORCHS_OWN(what) \
  "with torch.backends.cudnn.enabled = False PyTorch's own " what
#define GRAPH_API(what) "of cuDNN's " what ", those of the graph API are"
REFUSE_DESCRIPTOR(cudnnCreateActivationDescriptor,
                  "activations have no kernel of cuDNN here, those fused with batch "
                  "normalisation among them")
REFUSE_DESCRIPTOR(cudnnCreateCTCLossDescriptor, PYTORCHS_OWN("CTC loss runs"))
REFUSE_DESCRIPTOR(cudnnCreateConvolutionDescriptor, GRAPH_API("convolutions"))
REFUSE_DESCRIPTOR(cudnnCreateFilterDescriptor, GRAPH_API("convolutions"))
REFUSE_DESCRIPTOR(cudnnCreatePoolingDescriptor,
                  "cuDNN's pooling is not; PyTorch's own is, and takes no setting")
