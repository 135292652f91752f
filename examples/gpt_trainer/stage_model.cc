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
    last_parameter_.push_back(parameters.fc2_weight);
  }
  for (MicroBatch& micro_batch : micro_batches_) {
    micro_batch.layers.resize(layers_.size());
  }
  first_parameter_bound_ = store.layout().word_embedding >= 0
                               ? store.layout().word_embedding
                               : store.layout().layers.back().fc1_bias;
}

DeviceArray<Element> StageModel::Forward(int micro_batch, DeviceArray<Element> x) {
  const ProfilerRange range("forward");
  MicroBatch& saved = micro_batches_[micro_batch];
  const long long rows = context_.shape.rows();
  optimizer_.AwaitParameter(first_parameter_bound_);
  if (context_.first_stage()) {
    x = embedding_.Forward(batch_.tokens + micro_batch * rows);
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    optimizer_.AwaitParameter(last_parameter_[i]);
    x = layers_[i].Forward(std::move(x), &saved.layers[i]);
  }
  if (context_.last_stage()) {
    head_.Forward(std::move(x), batch_.labels + micro_batch * rows, loss_, &saved.head);
  }
  return x;
}

DeviceArray<Element> StageModel::Backward(int micro_batch,
                                          DeviceArray<Element> gradient) {
  const ProfilerRange range("backward");
  MicroBatch& saved = micro_batches_[micro_batch];
  const long long rows = context_.shape.rows();
  if (micro_batch == context_.shape.micro_batches - 1) {
    reducer_.LastMicroBatch();
  }
  if (context_.last_stage()) {
    gradient = head_.Backward(batch_.labels + micro_batch * rows, &saved.head);
  }
  for (size_t i = layers_.size(); i-- > 0;) {
    layers_[i].Backward(gradient, &saved.layers[i]);
  }
  if (context_.first_stage()) {
    embedding_.Backward(gradient, batch_.tokens + micro_batch * rows);
    gradient.Reset();
  }
  return gradient;
}

}  // namespace gpt
