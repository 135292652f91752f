// The layers of one pipeline rank, with the activations of all micro-batches in
// flight.

#ifndef EXAMPLES_GPT_TRAINER_STAGE_MODEL_H_
#define EXAMPLES_GPT_TRAINER_STAGE_MODEL_H_

#include <vector>

#include "examples/gpt_trainer/distributed_optimizer.h"
#include "examples/gpt_trainer/model_ends.h"
#include "examples/gpt_trainer/pipeline_schedule.h"
#include "examples/gpt_trainer/transformer_layer.h"

namespace gpt {

// Device arrays of the iteration's tokens and labels, [micro_batches][rows].
struct BatchPointers {
  const int* tokens;
  const int* labels;
};

class StageModel {
 public:
  // `loss`: one float on the device, which last stages add to.
  StageModel(const RankContext& context, const ParameterStore& store,
             GradientReducer& reducer, DistributedOptimizer& optimizer,
             BatchPointers batch, float* loss);

  // Factor of the loss in the backwards that follow.
  void SetLossScale(float scale) { loss_scale_ = scale; }

  // Takes a micro-batch through a chunk. `input` is empty at the model's beginning, the
  // result at its end.
  DeviceArray<Element> Forward(const PipelineStep::Work& work,
                               DeviceArray<Element> input);

  // `gradient` of the chunk's output is empty at the model's end. Returns the gradient
  // of the input, empty at the model's beginning.
  DeviceArray<Element> Backward(const PipelineStep::Work& work,
                                DeviceArray<Element> gradient);

 private:
  bool AtBeginning(const PipelineStep::Work& work) const {
    return context_.first_stage() && work.chunk == 0;
  }
  bool AtEnd(const PipelineStep::Work& work) const {
    return context_.last_stage() && work.chunk == context_.shape.virtual_stages - 1;
  }

  struct MicroBatch {
    std::vector<LayerActivations> layers;
    HeadActivations head;
  };

  const RankContext& context_;
  GradientReducer& reducer_;
  DistributedOptimizer& optimizer_;
  BatchPointers batch_;
  float* loss_;
  float loss_scale_ = 1.0f;
  Embedding embedding_;
  LossHead head_;
  std::vector<TransformerLayer> layers_;
  std::vector<int> last_parameter_;  // of each layer, by place in the layout
  int first_parameter_bound_;        // the ends and all vectors lie up to here
  std::vector<MicroBatch> micro_batches_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_STAGE_MODEL_H_
