// One transformer layer: attention and MLP, each behind a layer norm and a residual.
//
//   middle = input + projection(attention(qkv(norm1(input))))
//   output = middle + fc2(gelu(fc1(norm2(middle))))
//
// Inputs and outputs are this rank's slice of the positions, [rank_rows, hidden].

#ifndef EXAMPLES_GPT_TRAINER_TRANSFORMER_LAYER_H_
#define EXAMPLES_GPT_TRAINER_TRANSFORMER_LAYER_H_

#include <optional>

#include "examples/gpt_trainer/attention.h"
#include "examples/gpt_trainer/expert_mlp.h"
#include "examples/gpt_trainer/gradient_reducer.h"
#include "examples/gpt_trainer/kernels/kernels.h"
#include "examples/gpt_trainer/parameter_store.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

// A layer norm's output, and what its backward needs besides its input.
struct NormActivation {
  DeviceArray<Element> output;
  DeviceArray<float> mean;
  DeviceArray<float> inverse_deviation;
};

// What forward keeps for backward, per layer and micro-batch: 32 sbh / tp bytes and a
// little (s positions, b sequences, h hidden); with full recomputation the input.
struct LayerActivations {
  DeviceArray<Element> input;      // 2 sbh / tp
  NormActivation norm1;            // 2
  AttentionActivations attention;  // 8
  DeviceArray<Element> middle;     // 2
  NormActivation norm2;            // 2
  ExpertActivations experts;       // in place of the following
  DeviceArray<Element> fc1;        // 8: input of gelu
  DeviceArray<Element> gelu;       // 8
};

// Allocates and computes a layer norm of [rank_rows, hidden].
NormActivation ForwardNorm(const RankContext& context, const Element* x,
                           const Element* weight, const Element* bias);

// Accumulates the parameter gradients and returns dx (+ residual) in `dx`, which may be
// dy or residual.
struct NormParameters {
  const Element* weight;
  float* weight_gradient;
  float* bias_gradient;
};
void BackwardNorm(const RankContext& context, Element* dx, const Element* dy,
                  const Element* x, const NormActivation& saved,
                  const NormParameters& parameters, const Element* residual);

class TransformerLayer {
 public:
  TransformerLayer(const RankContext& context, const ParameterStore& store,
                   const LayerParameters& parameters, GradientReducer& reducer);

  DeviceArray<Element> Forward(DeviceArray<Element> input,
                               LayerActivations* saved) const;

  // `gradient` of the output becomes that of the input, in place. Gives `saved` back
  // piece by piece.
  void Backward(const DeviceArray<Element>& gradient, LayerActivations* saved) const;

 private:
  // Each block in two: backward with full recomputation needs no output.
  void AttentionBlock(LayerActivations* saved) const;
  void MlpHidden(LayerActivations* saved) const;
  DeviceArray<Element> MlpOutput(LayerActivations* saved) const;
  void AttentionBlockBackward(const DeviceArray<Element>& gradient,
                              LayerActivations* saved) const;
  void MlpBlockBackward(const DeviceArray<Element>& gradient,
                        LayerActivations* saved) const;
  // What lies behind norm2: the gradient of the norm's output.
  DeviceArray<Element> MlpInputGradient(const DeviceArray<Element>& gradient,
                                        LayerActivations* saved) const;

  DeviceArray<Element> Allocate(long long rows, long long columns) const {
    return {context_.allocator, rows * columns};
  }

  const RankContext& context_;
  const ParameterStore& store_;
  LayerParameters p_;
  GradientReducer& reducer_;
  std::optional<ExpertMlp> experts_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_TRANSFORMER_LAYER_H_
