// Work goes bucket by bucket, so that gathering one overlaps with updating the next.

#include "examples/gpt_trainer/distributed_optimizer.h"

#include <cmath>

namespace gpt {
namespace {

// GPT-3's choices (Brown et al. 2020, appendix B).
constexpr float kBeta1 = 0.9f;
constexpr float kBeta2 = 0.95f;
constexpr float kEpsilon = 1e-8f;
constexpr float kWeightDecay = 0.1f;

}  // namespace

DistributedOptimizer::DistributedOptimizer(const RankContext& context,
                                           const ParameterStore& parameters,
                                           StreamHandle communication)
    : context_(context),
      parameters_(parameters),
      communication_(communication),
      master_(context.allocator, parameters.layout().shard_elements),
      momentum_(context.allocator, parameters.layout().shard_elements),
      variance_(context.allocator, parameters.layout().shard_elements),
      partial_sums_(context.allocator,
                    kSquareSumBlocks *
                        static_cast<long long>(parameters.layout().buckets.size())),
      gathered_(parameters.layout().buckets.size()),
      awaited_buckets_(static_cast<int>(parameters.layout().buckets.size())) {
  for (const Bucket& bucket : parameters.layout().buckets) {
    CopyToMaster(master_.data() + bucket.shard_offset, ShardOfValues(bucket),
                 bucket.shard(), context.compute);
  }
  const size_t bytes = parameters.layout().shard_elements * sizeof(float);
  SetToZero(momentum_.data(), bytes, context.compute);
  SetToZero(variance_.data(), bytes, context.compute);
}

float* DistributedOptimizer::ShardOfGradients(const Bucket& bucket) const {
  return parameters_.gradients() + bucket.offset +
         context_.groups.ReplicasOf(bucket.group).rank() * bucket.shard();
}

Element* DistributedOptimizer::ShardOfValues(const Bucket& bucket) const {
  return parameters_.values() + bucket.offset +
         context_.groups.ReplicasOf(bucket.group).rank() * bucket.shard();
}

float DistributedOptimizer::NormWeight(const Bucket& bucket) const {
  const bool counted_by_first_tensor_rank =
      bucket.group == ParameterGroup::kReplicated && context_.at.tp != 0;
  const bool counted_by_first_stage =
      bucket.group == ParameterGroup::kWordEmbedding && !context_.first_stage();
  return counted_by_first_tensor_rank || counted_by_first_stage ? 0.0f : 1.0f;
}

void DistributedOptimizer::GradientSquareSum(float* square_sum) {
  const std::vector<Bucket>& buckets = parameters_.layout().buckets;
  float* partial = partial_sums_.data();
  for (const Bucket& bucket : buckets) {
    SquareSums(partial, ShardOfGradients(bucket), bucket.shard(), NormWeight(bucket),
               context_.compute);
    partial += kSquareSumBlocks;
  }
  SumPartials(square_sum, partial_sums_.data(),
              kSquareSumBlocks * static_cast<int>(buckets.size()), context_.compute);
}

void DistributedOptimizer::Step(float learning_rate, float gradient_scale) {
  ++steps_;
  const std::vector<Bucket>& buckets = parameters_.layout().buckets;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const Bucket& bucket = buckets[i];
    const long long shard = bucket.shard();
    const bool decays = bucket.group == ParameterGroup::kMatrix ||
                        bucket.group == ParameterGroup::kWordEmbedding ||
                        bucket.group == ParameterGroup::kExpert;
    const AdamStep step{learning_rate,
                        kBeta1,
                        kBeta2,
                        kEpsilon,
                        decays ? kWeightDecay : 0.0f,
                        1.0f - std::pow(kBeta1, static_cast<float>(steps_)),
                        1.0f - std::pow(kBeta2, static_cast<float>(steps_)),
                        gradient_scale};
    const AdamState state{master_.data() + bucket.shard_offset,
                          momentum_.data() + bucket.shard_offset,
                          variance_.data() + bucket.shard_offset};
    AdamW(ShardOfValues(bucket), state, ShardOfGradients(bucket), shard, step,
          context_.compute);
    Gather(i);
  }
}

// The compute stream holds the update of this rank's shard.
void DistributedOptimizer::Gather(size_t i) {
  const Bucket& bucket = parameters_.layout().buckets[i];
  if (bucket.replicas == 1) {
    return;
  }
  updated_.Record(context_.compute);
  updated_.Await(communication_);
  context_.groups.ReplicasOf(bucket.group)
      .AllGather(ShardOfValues(bucket), parameters_.values() + bucket.offset,
                 bucket.shard(), communication_);
  gathered_[i].Record(communication_);
  awaited_buckets_ = 0;
}

std::vector<StateArray> DistributedOptimizer::State() const {
  const long long elements = parameters_.layout().shard_elements;
  return {{master_.data(), elements},
          {momentum_.data(), elements},
          {variance_.data(), elements}};
}

void DistributedOptimizer::Restore(int steps) {
  steps_ = steps;
  const std::vector<Bucket>& buckets = parameters_.layout().buckets;
  for (size_t i = 0; i < buckets.size(); ++i) {
    CopyFromMaster(ShardOfValues(buckets[i]), master_.data() + buckets[i].shard_offset,
                   buckets[i].shard(), context_.compute);
    Gather(i);
  }
}

void DistributedOptimizer::AwaitParameter(int parameter) {
  const ParameterLayout& layout = parameters_.layout();
  if (awaited_buckets_ == static_cast<int>(layout.buckets.size())) {
    return;
  }
  const int bucket = layout.BucketOf(layout.parameters[parameter].offset);
  for (; awaited_buckets_ <= bucket; ++awaited_buckets_) {
    if (layout.buckets[awaited_buckets_].replicas > 1) {
      gathered_[awaited_buckets_].Await(context_.compute);
    }
  }
}

}  // namespace gpt
