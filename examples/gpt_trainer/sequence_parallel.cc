// On the compute stream, but in backward: the products before and after depend on the
// result.

#include "examples/gpt_trainer/sequence_parallel.h"

#include <utility>

namespace gpt {

GatheredRows::GatheredRows(const RankContext& context,
                           const DeviceArray<Element>& slice, StreamHandle stream)
    : data_(slice.data()) {
  if (context.shape.tp > 1) {
    owned_ = DeviceArray<Element>(context.allocator, context.shape.hidden_elements());
    data_ = owned_.data();
    context.groups.tensor().AllGather(slice.data(), owned_.data(),
                                      context.shape.rank_hidden_elements(), stream);
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

namespace {

DeviceArray<Element> OverlappedBackward(const RankContext& context,
                                        const ColumnParallel& layer) {
  const ModelShape& shape = context.shape;
  const Overlap& overlap = *context.overlap;
  const DeviceArray<Element> dx(context.allocator, shape.hidden_elements());
  overlap.Begin();
  const GatheredRows x(context, layer.x, overlap.stream());
  context.multiply.InputGradient(dx.data(), layer.dy, layer.weight, shape.rows(),
                                 shape.hidden, layer.outputs);
  overlap.End();
  DeviceArray<Element> slice(context.allocator, shape.rank_hidden_elements());
  overlap.Begin();
  context.groups.tensor().ReduceScatter(dx.data(), slice.data(),
                                        shape.rank_hidden_elements(), overlap.stream());
  context.multiply.WeightGradient(layer.weight_gradient, layer.dy, x.data(),
                                  shape.rows(), shape.hidden, layer.outputs);
  overlap.End();
  return slice;
}

}  // namespace

DeviceArray<Element> ColumnParallelBackward(const RankContext& context,
                                            const ColumnParallel& layer) {
  const ModelShape& shape = context.shape;
  if (shape.overlap_tp) {
    return OverlappedBackward(context, layer);
  }
  DeviceArray<Element> dx(context.allocator, shape.hidden_elements());
  context.multiply.InputGradient(dx.data(), layer.dy, layer.weight, shape.rows(),
                                 shape.hidden, layer.outputs);
  dx = ReduceScatterRows(context, std::move(dx));
  const GatheredRows x(context, layer.x);
  context.multiply.WeightGradient(layer.weight_gradient, layer.dy, x.data(),
                                  shape.rows(), shape.hidden, layer.outputs);
  return dx;
}

}  // namespace gpt
