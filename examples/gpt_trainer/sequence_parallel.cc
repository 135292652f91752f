// On the compute stream: the products before and after depend on the result.

#include "examples/gpt_trainer/sequence_parallel.h"

#include "examples/gpt_trainer/checks.h"

namespace gpt {

GatheredRows::GatheredRows(const RankContext& context, const DeviceArray<bf16>& slice)
    : data_(slice.data()) {
  if (context.shape.tp > 1) {
    owned_ = DeviceArray<bf16>(context.allocator, context.shape.hidden_elements());
    data_ = owned_.data();
    GPT_CHECK_NCCL(ncclAllGather(slice.data(), owned_.data(),
                                 context.shape.rank_hidden_elements(), ncclBfloat16,
                                 context.groups.tensor().handle, context.compute));
  }
}

DeviceArray<bf16> ReduceScatterRows(const RankContext& context,
                                    DeviceArray<bf16> full) {
  if (context.shape.tp == 1) {
    return full;
  }
  DeviceArray<bf16> slice(context.allocator, context.shape.rank_hidden_elements());
  GPT_CHECK_NCCL(ncclReduceScatter(
      full.data(), slice.data(), context.shape.rank_hidden_elements(), ncclBfloat16,
      ncclSum, context.groups.tensor().handle, context.compute));
  return slice;
}

}  // namespace gpt
