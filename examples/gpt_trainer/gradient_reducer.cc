// Buckets leave from the last to the first, in the same order on all ranks of a group.

#include "examples/gpt_trainer/gradient_reducer.h"

#include "examples/gpt_trainer/device/profiler_range.h"

namespace gpt {

GradientReducer::GradientReducer(const RankContext& context,
                                 const ParameterStore& parameters,
                                 StreamHandle communication)
    : context_(context), parameters_(parameters), communication_(communication) {}

void GradientReducer::Begin() {
  const ParameterLayout& layout = parameters_.layout();
  SetToZero(parameters_.gradients(), layout.elements * sizeof(float), context_.compute);
  last_micro_batch_ = false;
  next_bucket_ = static_cast<int>(layout.buckets.size()) - 1;
}

void GradientReducer::Completed(int parameter) {
  if (!last_micro_batch_ || context_.shape.replicas() == 1) {
    return;
  }
  const ParameterLayout& layout = parameters_.layout();
  const long long complete_from = layout.parameters[parameter].offset;
  if (layout.buckets[next_bucket_].offset < complete_from) {
    return;
  }
  computed_.Record(context_.compute);
  computed_.Await(communication_);
  while (layout.buckets[next_bucket_].offset >= complete_from) {
    ReduceBucket(layout.buckets[next_bucket_--]);
  }
}

void GradientReducer::Finish() {
  const ProfilerRange range("reduce gradients");
  const ParameterLayout& layout = parameters_.layout();
  if (context_.shape.tp > 1) {
    // Each rank saw a slice of the positions only.
    for (const Bucket& bucket : layout.buckets) {
      if (bucket.group == ParameterGroup::kReplicated) {
        float* data = parameters_.gradients() + bucket.offset;
        context_.groups.tensor().AllReduce(data, data, bucket.elements, Reduction::kSum,
                                           context_.compute);
      }
    }
  }
  if (layout.word_embedding >= 0 && context_.shape.pp > 1) {
    // The first stage looks words up, the last one multiplies by the same table.
    float* data = parameters_.gradient(layout.word_embedding);
    context_.groups.embedding().AllReduce(
        data, data, layout.parameters[layout.word_embedding].elements(),
        Reduction::kSum, context_.compute);
  }
  // Experts may be held by several ranks where nothing else is.
  if (context_.shape.replicas() > 1 ||
      (context_.shape.experts > 0 && context_.shape.expert_replicas() > 1)) {
    computed_.Record(context_.compute);
    computed_.Await(communication_);
    while (next_bucket_ >= 0) {
      ReduceBucket(layout.buckets[next_bucket_--]);
    }
    reduced_.Record(communication_);
    reduced_.Await(context_.compute);
  }
}

void GradientReducer::ReduceBucket(const Bucket& bucket) {
  if (bucket.replicas == 1) {
    return;
  }
  const Communicator& replicas = context_.groups.ReplicasOf(bucket.group);
  float* data = parameters_.gradients() + bucket.offset;
  replicas.ReduceScatter(data, data + replicas.rank() * bucket.shard(), bucket.shard(),
                         communication_);
}

}  // namespace gpt
