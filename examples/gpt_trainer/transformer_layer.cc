// Buffers live no longer than needed: the order of resets below sets the peak memory
// that closed_form.cc states.

#include "examples/gpt_trainer/transformer_layer.h"

#include <utility>

#include "examples/gpt_trainer/attention.h"
#include "examples/gpt_trainer/sequence_parallel.h"

namespace gpt {

NormActivation ForwardNorm(const RankContext& context, const Element* x,
                           const Element* weight, const Element* bias) {
  const ModelShape& shape = context.shape;
  NormActivation norm;
  norm.output = DeviceArray<Element>(context.allocator, shape.rank_hidden_elements());
  norm.mean = DeviceArray<float>(context.allocator, shape.rank_rows());
  norm.inverse_deviation = DeviceArray<float>(context.allocator, shape.rank_rows());
  LayerNormForward(norm.output.data(), norm.mean.data(), norm.inverse_deviation.data(),
                   x, weight, bias, shape.rank_rows(), shape.hidden, context.compute);
  return norm;
}

void BackwardNorm(const RankContext& context, Element* dx, const Element* dy,
                  const Element* x, const NormActivation& saved,
                  const NormParameters& parameters, const Element* residual) {
  const ModelShape& shape = context.shape;
  const LayerNormSaved kept{x, saved.mean.data(), saved.inverse_deviation.data()};
  LayerNormParameterGradients(parameters.weight_gradient, parameters.bias_gradient, dy,
                              kept, shape.rank_rows(), shape.hidden, context.compute);
  LayerNormBackward(dx, dy, kept, parameters.weight, residual, shape.rank_rows(),
                    shape.hidden, context.compute);
}

TransformerLayer::TransformerLayer(const RankContext& context,
                                   const ParameterStore& store,
                                   const LayerParameters& parameters,
                                   GradientReducer& reducer)
    : context_(context), store_(store), p_(parameters), reducer_(reducer) {
  if (context.shape.experts > 0) {
    experts_.emplace(context, store, parameters);
  }
}

DeviceArray<Element> TransformerLayer::Forward(DeviceArray<Element> input,
                                               LayerActivations* saved) const {
  saved->input = std::move(input);
  AttentionBlock(saved);
  MlpHidden(saved);
  DeviceArray<Element> output = MlpOutput(saved);
  if (context_.shape.recompute == Recompute::kFull) {
    input = std::move(saved->input);
    *saved = LayerActivations();
    saved->input = std::move(input);
  }
  return output;
}

void TransformerLayer::AttentionBlock(LayerActivations* saved) const {
  const ModelShape& shape = context_.shape;
  const int rows = shape.rows();
  saved->norm1 =
      ForwardNorm(context_, saved->input.data(), store_.value(p_.norm1_weight),
                  store_.value(p_.norm1_bias));
  {
    const GatheredRows norm1(context_, saved->norm1.output);
    saved->attention.qkv = Allocate(rows, 3LL * shape.rank_hidden());
    context_.multiply.Forward(saved->attention.qkv.data(), norm1.data(),
                              store_.value(p_.qkv_weight), rows, shape.hidden,
                              3 * shape.rank_hidden());
  }
  AddBias(saved->attention.qkv.data(), store_.value(p_.qkv_bias), rows,
          3 * shape.rank_hidden(), context_.compute);
  AttentionForward(context_, &saved->attention);

  DeviceArray<Element> projected = Allocate(rows, shape.hidden);
  context_.multiply.Forward(projected.data(), saved->attention.context.data(),
                            store_.value(p_.projection_weight), rows,
                            shape.rank_hidden(), shape.hidden);
  projected = ReduceScatterRows(context_, std::move(projected));
  saved->middle = Allocate(shape.rank_rows(), shape.hidden);
  BiasResidual(saved->middle.data(), projected.data(), store_.value(p_.projection_bias),
               saved->input.data(), shape.rank_rows(), shape.hidden, context_.compute);
}

void TransformerLayer::MlpHidden(LayerActivations* saved) const {
  const ModelShape& shape = context_.shape;
  const int rows = shape.rows();
  saved->norm2 =
      ForwardNorm(context_, saved->middle.data(), store_.value(p_.norm2_weight),
                  store_.value(p_.norm2_bias));
  if (experts_) {
    return;  // see MlpOutput
  }
  {
    const GatheredRows norm2(context_, saved->norm2.output);
    saved->fc1 = Allocate(rows, shape.rank_ffn());
    context_.multiply.Forward(saved->fc1.data(), norm2.data(),
                              store_.value(p_.fc1_weight), rows, shape.hidden,
                              shape.rank_ffn());
  }
  saved->gelu = Allocate(rows, shape.rank_ffn());
  BiasGelu(saved->gelu.data(), saved->fc1.data(), store_.value(p_.fc1_bias), rows,
           shape.rank_ffn(), context_.compute);
}

DeviceArray<Element> TransformerLayer::MlpOutput(LayerActivations* saved) const {
  if (experts_) {
    return experts_->Forward(saved->middle, saved->norm2.output, &saved->experts);
  }
  const ModelShape& shape = context_.shape;
  const int rows = shape.rows();
  DeviceArray<Element> projected = Allocate(rows, shape.hidden);
  context_.multiply.Forward(projected.data(), saved->gelu.data(),
                            store_.value(p_.fc2_weight), rows, shape.rank_ffn(),
                            shape.hidden);
  projected = ReduceScatterRows(context_, std::move(projected));
  DeviceArray<Element> output = Allocate(shape.rank_rows(), shape.hidden);
  BiasResidual(output.data(), projected.data(), store_.value(p_.fc2_bias),
               saved->middle.data(), shape.rank_rows(), shape.hidden, context_.compute);
  return output;
}

void TransformerLayer::Backward(const DeviceArray<Element>& gradient,
                                LayerActivations* saved) const {
  if (context_.shape.recompute == Recompute::kFull) {
    AttentionBlock(saved);
    MlpHidden(saved);
  }
  MlpBlockBackward(gradient, saved);
  AttentionBlockBackward(gradient, saved);
}

DeviceArray<Element> TransformerLayer::MlpInputGradient(
    const DeviceArray<Element>& gradient, LayerActivations* saved) const {
  if (experts_) {
    return experts_->Backward(gradient, saved->norm2.output, &saved->experts);
  }
  const ModelShape& shape = context_.shape;
  const int rows = shape.rows();
  BiasGradient(store_.gradient(p_.fc2_bias), gradient.data(), shape.rank_rows(),
               shape.hidden, context_.compute);
  DeviceArray<Element> dfc1;
  {
    const GatheredRows dy(context_, gradient);
    context_.multiply.WeightGradient(store_.gradient(p_.fc2_weight), dy.data(),
                                     saved->gelu.data(), rows, shape.rank_ffn(),
                                     shape.hidden);
    reducer_.Completed(p_.fc2_weight);
    saved->gelu.Reset();
    dfc1 = Allocate(rows, shape.rank_ffn());
    context_.multiply.InputGradient(dfc1.data(), dy.data(), store_.value(p_.fc2_weight),
                                    rows, shape.rank_ffn(), shape.hidden);
  }
  GeluBackward(dfc1.data(), dfc1.data(), saved->fc1.data(),
               1LL * rows * shape.rank_ffn(), context_.compute);
  saved->fc1.Reset();
  BiasGradient(store_.gradient(p_.fc1_bias), dfc1.data(), rows, shape.rank_ffn(),
               context_.compute);
  DeviceArray<Element> dnorm2 = ColumnParallelBackward(
      context_, {dfc1.data(), saved->norm2.output, store_.value(p_.fc1_weight),
                 store_.gradient(p_.fc1_weight), shape.rank_ffn()});
  reducer_.Completed(p_.fc1_weight);
  return dnorm2;
}

void TransformerLayer::MlpBlockBackward(const DeviceArray<Element>& gradient,
                                        LayerActivations* saved) const {
  const DeviceArray<Element> dnorm2 = MlpInputGradient(gradient, saved);
  BackwardNorm(context_, gradient.data(), dnorm2.data(), saved->middle.data(),
               saved->norm2,
               {store_.value(p_.norm2_weight), store_.gradient(p_.norm2_weight),
                store_.gradient(p_.norm2_bias)},
               gradient.data());
  saved->middle.Reset();
  saved->norm2 = NormActivation();
}

void TransformerLayer::AttentionBlockBackward(const DeviceArray<Element>& gradient,
                                              LayerActivations* saved) const {
  const ModelShape& shape = context_.shape;
  const int rows = shape.rows();
  BiasGradient(store_.gradient(p_.projection_bias), gradient.data(), shape.rank_rows(),
               shape.hidden, context_.compute);
  DeviceArray<Element> dcontext;
  {
    const GatheredRows dy(context_, gradient);
    context_.multiply.WeightGradient(store_.gradient(p_.projection_weight), dy.data(),
                                     saved->attention.context.data(), rows,
                                     shape.rank_hidden(), shape.hidden);
    reducer_.Completed(p_.projection_weight);
    if (!shape.fused_attention()) {
      saved->attention.context.Reset();
    }
    dcontext = Allocate(rows, shape.rank_hidden());
    context_.multiply.InputGradient(dcontext.data(), dy.data(),
                                    store_.value(p_.projection_weight), rows,
                                    shape.rank_hidden(), shape.hidden);
  }
  DeviceArray<Element> dqkv = Allocate(rows, 3LL * shape.rank_hidden());
  AttentionBackward(context_, dqkv.data(), dcontext.data(), &saved->attention);
  dcontext.Reset();
  saved->attention.qkv.Reset();
  BiasGradient(store_.gradient(p_.qkv_bias), dqkv.data(), rows, 3 * shape.rank_hidden(),
               context_.compute);
  const DeviceArray<Element> dnorm1 = ColumnParallelBackward(
      context_, {dqkv.data(), saved->norm1.output, store_.value(p_.qkv_weight),
                 store_.gradient(p_.qkv_weight), 3 * shape.rank_hidden()});
  reducer_.Completed(p_.qkv_weight);
  BackwardNorm(context_, gradient.data(), dnorm1.data(), saved->input.data(),
               saved->norm1,
               {store_.value(p_.norm1_weight), store_.gradient(p_.norm1_weight),
                store_.gradient(p_.norm1_bias)},
               gradient.data());
  saved->input.Reset();
  saved->norm1 = NormActivation();
}

}  // namespace gpt
