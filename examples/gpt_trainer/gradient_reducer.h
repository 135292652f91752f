// Sums gradients over the ranks that share parameters, overlapped with backward.
//
// During the last micro-batch's backward, a bucket whose gradients are complete is
// reduce-scattered over the data-parallel group on a second stream while backward goes
// on (Rajbhandari et al. 2020, "ZeRO", stage 1 with bucketed reduction). Afterwards
// this rank's shard of each bucket, in place, holds the sum.

#ifndef EXAMPLES_GPT_TRAINER_GRADIENT_REDUCER_H_
#define EXAMPLES_GPT_TRAINER_GRADIENT_REDUCER_H_

#include "examples/gpt_trainer/device/device.h"
#include "examples/gpt_trainer/parameter_store.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

class GradientReducer {
 public:
  // `communication`: the second stream.
  GradientReducer(const RankContext& context, const ParameterStore& parameters,
                  StreamHandle communication);

  // Sets all gradients to zero; call before the first backward of an iteration.
  void Begin();
  // Whether what is completed from here on is final: the last micro-batch of its chunk.
  void LastMicroBatch(bool last) { last_micro_batch_ = last; }
  // The gradient of a layer's matrix has been issued on the compute stream, and so have
  // those of all matrices behind it in the layout.
  void Completed(int parameter);
  // Reduces what is left; the compute stream waits for all sums.
  void Finish();

 private:
  void ReduceBucket(const Bucket& bucket);

  const RankContext& context_;
  const ParameterStore& parameters_;
  StreamHandle communication_;
  Event computed_;
  Event reduced_;
  bool last_micro_batch_ = false;
  int next_bucket_ = 0;  // buckets above this one are on their way
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_GRADIENT_REDUCER_H_
