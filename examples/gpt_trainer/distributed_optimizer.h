// AdamW whose fp32 state is spread over the data-parallel group.
//
// Each rank updates its shard of every bucket and the bf16 results are all-gathered on
// the second stream. The next iteration's forward waits for a bucket only when it
// reaches a layer that needs it.

#ifndef EXAMPLES_GPT_TRAINER_DISTRIBUTED_OPTIMIZER_H_
#define EXAMPLES_GPT_TRAINER_DISTRIBUTED_OPTIMIZER_H_

#include <vector>

#include "examples/gpt_trainer/checkpoint.h"
#include "examples/gpt_trainer/device/device.h"
#include "examples/gpt_trainer/parameter_store.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

class DistributedOptimizer {
 public:
  // Copies the initial parameters into the master weights.
  DistributedOptimizer(const RankContext& context, const ParameterStore& parameters,
                       StreamHandle communication);

  // *square_sum = this rank's part of the squared gradient norm: over the world, each
  // parameter counts once.
  void GradientSquareSum(float* square_sum);

  // One step; gradients are multiplied by `gradient_scale`.
  void Step(float learning_rate, float gradient_scale);

  // The state of this rank's shards, for checkpoints.
  std::vector<StateArray> State() const;
  int steps() const { return steps_; }
  // The state was read from a checkpoint: makes parameters of the master weights.
  void Restore(int steps);
  // The compute stream waits until everything up to this parameter is gathered.
  void AwaitParameter(int parameter);

 private:
  void Gather(size_t bucket);
  float* ShardOfGradients(const Bucket& bucket) const;
  Element* ShardOfValues(const Bucket& bucket) const;
  float NormWeight(const Bucket& bucket) const;

  const RankContext& context_;
  const ParameterStore& parameters_;
  StreamHandle communication_;
  DeviceArray<float> master_;
  DeviceArray<float> momentum_;
  DeviceArray<float> variance_;
  DeviceArray<float> partial_sums_;
  Event updated_;
  std::vector<Event> gathered_;  // one per bucket
  int awaited_buckets_;          // those below need no wait in this iteration
  int steps_ = 0;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DISTRIBUTED_OPTIMIZER_H_
