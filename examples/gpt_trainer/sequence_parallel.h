// Moves activations between the two layouts of tensor parallelism with sequence
// parallelism (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large
// Transformer Models", section 4.2.2).
//
// Outside the matrix products each tensor-parallel rank holds a slice of the positions
// and all columns; inside, all positions and a part of the columns. Gather goes in,
// ReduceScatter comes out and sums the partial products. With tp = 1 both are the
// identity and cost nothing.

#ifndef EXAMPLES_GPT_TRAINER_SEQUENCE_PARALLEL_H_
#define EXAMPLES_GPT_TRAINER_SEQUENCE_PARALLEL_H_

#include "examples/gpt_trainer/kernels/kernels.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

// All rows of an activation: memory of its own, or the slice itself with tp = 1.
class GatheredRows {
 public:
  GatheredRows(const RankContext& context, const DeviceArray<Element>& slice)
      : GatheredRows(context, slice, context.compute) {}
  // On another stream.
  GatheredRows(const RankContext& context, const DeviceArray<Element>& slice,
               StreamHandle stream);

  const Element* data() const { return data_; }

 private:
  DeviceArray<Element> owned_;
  const Element* data_;
};

// Takes [rows, hidden] partial sums, returns this rank's [rank_rows, hidden] of the
// sum.
DeviceArray<Element> ReduceScatterRows(const RankContext& context,
                                       DeviceArray<Element> full);

// Backward of a product whose weight's outputs are spread over the ranks: y = x w^T
// with x gathered from slices.
struct ColumnParallel {
  const Element* dy;              // [rows, outputs]
  const DeviceArray<Element>& x;  // this rank's slice
  const Element* weight;          // [outputs, hidden]
  float* weight_gradient;         // is added to
  int outputs;
};
// Returns this rank's slice of dx. With --overlap-tp x is gathered beside the product
// for dx, and dx is reduce-scattered beside the product for the weight, as
// Megatron-LM does.
DeviceArray<Element> ColumnParallelBackward(const RankContext& context,
                                            const ColumnParallel& layer);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_SEQUENCE_PARALLEL_H_
