// A stage's slice of the positions goes to the rank with the same slice: nothing is
// sent twice.

#include "examples/gpt_trainer/pipeline_link.h"

#include "examples/gpt_trainer/checks.h"
#include "examples/gpt_trainer/nvtx_range.h"

namespace gpt {

DeviceArray<bf16> PipelineLink::Exchange(int peer, DeviceArray<bf16> outgoing,
                                         bool receive) const {
  const NvtxRange range("pipeline exchange");
  const ncclComm_t pipeline = context_.groups.pipeline().handle;
  const long long elements = context_.shape.rank_hidden_elements();
  DeviceArray<bf16> incoming;
  if (receive) {
    incoming = DeviceArray<bf16>(context_.allocator, elements);
  }
  GPT_CHECK_NCCL(ncclGroupStart());
  if (!outgoing.empty()) {
    GPT_CHECK_NCCL(ncclSend(outgoing.data(), elements, ncclBfloat16, peer, pipeline,
                            context_.compute));
  }
  if (receive) {
    GPT_CHECK_NCCL(ncclRecv(incoming.data(), elements, ncclBfloat16, peer, pipeline,
                            context_.compute));
  }
  GPT_CHECK_NCCL(ncclGroupEnd());
  return incoming;
}

}  // namespace gpt
