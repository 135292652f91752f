// On the compute stream: the products before and after depend on the result.

#include "examples/gpt_trainer/sequence_parallel.h"

namespace gpt {

GatheredRows::GatheredRows(const RankContext& context,
                           const DeviceArray<Element>& slice)
    : data_(slice.data()) {
  if (context.shape.tp > 1) {
    owned_ = DeviceArray<Element>(context.allocator, context.shape.hidden_elements());
    data_ = owned_.data();
    context.groups.tensor().AllGather(slice.data(), owned_.data(),
                                      context.shape.rank_hidden_elements(),
                                      context.compute);
  }
}

DeviceArray<Element> ReduceScatterRows(const RankContext& context,
                                       DeviceArray<Element> full) {
  if (context.shape.tp == 1) {
    return full;
  }
  DeviceArray<Element> slice(context.allocator, context.shape.rank_hidden_elements());
  context.groups.tensor().ReduceScatter(
      full.data(), slice.data(), context.shape.rank_hidden_elements(), context.compute);
  return slice;
}

}  // namespace gpt
