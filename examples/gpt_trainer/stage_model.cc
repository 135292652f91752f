// Runs the layers forwards and backwards.

#include "examples/gpt_trainer/stage_model.h"

#include <utility>

#include "examples/gpt_trainer/device/profiler_range.h"

namespace gpt {

StageModel::StageModel(const RankContext& context, const ParameterStore& store,
                       GradientReducer& reducer, DistributedOptimizer& optimizer,
                       BatchPointers batch, float* loss)
    : context_(context),
      reducer_(reducer),
      optimizer_(optimizer),
      batch_(batch),
      loss_(loss),
      embedding_(context, store),
      head_(context, store),
      micro_batches_(context.shape.micro_batches) {
  for (const LayerParameters& parameters : store.layout().layers) {
    layers_.emplace_back(context, store, parameters, reducer);
    // Experts lie in front of all matrices.
    last_parameter_.push_back(context.shape.experts > 0 ? parameters.projection_weight
                                                        : parameters.fc2_weight);
  }
  for (MicroBatch& micro_batch : micro_batches_) {
    micro_batch.layers.resize(layers_.size());
  }
  first_parameter_bound_ = store.layout().word_embedding >= 0
                               ? store.layout().word_embedding
                               : store.layout().layers.back().qkv_bias;
}

DeviceArray<Element> StageModel::Forward(const PipelineStep::Work& work,
                                         DeviceArray<Element> x) {
  const ProfilerRange range("forward");
  MicroBatch& saved = micro_batches_[work.micro_batch];
  const long long first_row = 1LL * work.micro_batch * context_.shape.rows();
  optimizer_.AwaitParameter(first_parameter_bound_);
  if (AtBeginning(work)) {
    x = embedding_.Forward(batch_.tokens + first_row);
  }
  const int layers = context_.shape.chunk_layers();
  for (int i = work.chunk * layers; i < (work.chunk + 1) * layers; ++i) {
    optimizer_.AwaitParameter(last_parameter_[i]);
    x = layers_[i].Forward(std::move(x), &saved.layers[i]);
  }
  if (AtEnd(work)) {
    head_.Forward(std::move(x), batch_.labels + first_row, loss_, &saved.head);
  }
  return x;
}

DeviceArray<Element> StageModel::Backward(const PipelineStep::Work& work,
                                          DeviceArray<Element> gradient) {
  const ProfilerRange range("backward");
  MicroBatch& saved = micro_batches_[work.micro_batch];
  const long long first_row = 1LL * work.micro_batch * context_.shape.rows();
  reducer_.LastMicroBatch(work.micro_batch == context_.shape.micro_batches - 1);
  if (AtEnd(work)) {
    gradient = head_.Backward(batch_.labels + first_row, loss_scale_, &saved.head);
  }
  const int layers = context_.shape.chunk_layers();
  for (int i = (work.chunk + 1) * layers; i-- > work.chunk * layers;) {
    layers_[i].Backward(gradient, &saved.layers[i]);
  }
  if (AtBeginning(work)) {
    embedding_.Backward(gradient, batch_.tokens + first_row);
    gradient.Reset();
  }
  return gradient;
}

}  // namespace gpt
