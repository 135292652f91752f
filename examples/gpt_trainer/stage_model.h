// The layers of one pipeline stage, with the activations of all micro-batches in
// flight.

#ifndef EXAMPLES_GPT_TRAINER_STAGE_MODEL_H_
#define EXAMPLES_GPT_TRAINER_STAGE_MODEL_H_

#include <vector>

#include "examples/gpt_trainer/distributed_optimizer.h"
#include "examples/gpt_trainer/model_ends.h"
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

  // `input` is empty on the first stage. The result is empty on the last one.
  DeviceArray<Element> Forward(int micro_batch, DeviceArray<Element> input);

  // `gradient` of the stage's output is empty on the last stage. Returns the gradient
  // of the input, empty on the first stage.
  DeviceArray<Element> Backward(int micro_batch, DeviceArray<Element> gradient);

 private:
  struct MicroBatch {
    std::vector<LayerActivations> layers;
    HeadActivations head;
  };

  const RankContext& context_;
  GradientReducer& reducer_;
  DistributedOptimizer& optimizer_;
  BatchPointers batch_;
  float* loss_;
  Embedding embedding_;
  LossHead head_;
  std::vector<TransformerLayer> layers_;
  std::vector<int> last_parameter_;  // of each layer, by place in the layout
  int first_parameter_bound_;        // the ends and all vectors lie up to here
  std::vector<MicroBatch> micro_batches_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_STAGE_MODEL_H_
