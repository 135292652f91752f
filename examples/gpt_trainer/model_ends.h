// What stands before the first and behind the last layer: embedding and loss.
//
// Both use the same word table, spread over the tensor-parallel ranks by vocabulary.

#ifndef EXAMPLES_GPT_TRAINER_MODEL_ENDS_H_
#define EXAMPLES_GPT_TRAINER_MODEL_ENDS_H_

#include "examples/gpt_trainer/transformer_layer.h"

namespace gpt {

// First stage: tokens to activations.
class Embedding {
 public:
  Embedding(const RankContext& context, const ParameterStore& store)
      : context_(context), store_(store) {}

  // tokens: [rows] on the device.
  DeviceArray<Element> Forward(const int* tokens) const;
  void Backward(const DeviceArray<Element>& gradient, const int* tokens) const;

 private:
  const RankContext& context_;
  const ParameterStore& store_;
};

struct HeadActivations {
  DeviceArray<Element> input;
  NormActivation norm;
  DeviceArray<Element> logits;  // [rows, rank_vocab]
  DeviceArray<float> row_max;
  DeviceArray<float> sums;  // see CrossEntropySums
};

// Last stage: final layer norm, logits, cross-entropy.
class LossHead {
 public:
  LossHead(const RankContext& context, const ParameterStore& store)
      : context_(context), store_(store) {}

  // Adds this micro-batch's share of the mean loss to *loss on the device.
  void Forward(DeviceArray<Element> input, const int* labels, float* loss,
               HeadActivations* saved) const;
  // Returns the gradient of the input; gives `saved` back.
  DeviceArray<Element> Backward(const int* labels, float loss_scale,
                                HeadActivations* saved) const;

 private:
  // 1 / (all tokens of the iteration): makes sums of losses and gradients means.
  float TokenShare() const;

  const RankContext& context_;
  const ParameterStore& store_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_MODEL_ENDS_H_
