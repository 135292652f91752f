// The vocabulary-parallel parts follow Shoeybi et al. 2019, "Megatron-LM", section 3.

#include "examples/gpt_trainer/model_ends.h"

#include <utility>

#include "examples/gpt_trainer/sequence_parallel.h"

namespace gpt {

DeviceArray<Element> Embedding::Forward(const int* tokens) const {
  const ModelShape& shape = context_.shape;
  const ParameterLayout& layout = store_.layout();
  DeviceArray<Element> words(context_.allocator, shape.hidden_elements());
  EmbeddingForward(words.data(), store_.value(layout.word_embedding), tokens,
                   shape.rows(), shape.hidden, context_.at.tp * shape.rank_vocab(),
                   shape.rank_vocab(), context_.compute);
  DeviceArray<Element> x = ReduceScatterRows(context_, std::move(words));
  AddPositions(x.data(), store_.value(layout.position_embedding), shape.rank_rows(),
               shape.hidden, shape.micro_batch_size,
               context_.at.tp * shape.rank_sequence(),
               shape.PositionsOf(context_.at.cp), context_.compute);
  return x;
}

void Embedding::Backward(const DeviceArray<Element>& gradient,
                         const int* tokens) const {
  const ModelShape& shape = context_.shape;
  const ParameterLayout& layout = store_.layout();
  PositionsBackward(store_.gradient(layout.position_embedding), gradient.data(),
                    shape.rank_rows(), shape.hidden, shape.micro_batch_size,
                    context_.at.tp * shape.rank_sequence(),
                    shape.PositionsOf(context_.at.cp), context_.compute);
  const GatheredRows rows(context_, gradient);
  EmbeddingBackward(store_.gradient(layout.word_embedding), rows.data(), tokens,
                    shape.rows(), shape.hidden, context_.at.tp * shape.rank_vocab(),
                    shape.rank_vocab(), context_.compute);
}

float LossHead::TokenShare() const {
  return static_cast<float>(1.0 / context_.shape.tokens());
}

void LossHead::Forward(DeviceArray<Element> input, const int* labels, float* loss,
                       HeadActivations* saved) const {
  const ModelShape& shape = context_.shape;
  const ParameterLayout& layout = store_.layout();
  const int rows = shape.rows();
  const int columns = shape.rank_vocab();
  saved->input = std::move(input);
  saved->norm =
      ForwardNorm(context_, saved->input.data(), store_.value(layout.final_norm_weight),
                  store_.value(layout.final_norm_bias));
  {
    const GatheredRows norm(context_, saved->norm.output);
    saved->logits = DeviceArray<Element>(context_.allocator, 1LL * rows * columns);
    context_.multiply.Forward(saved->logits.data(), norm.data(),
                              store_.value(layout.word_embedding), rows, shape.hidden,
                              columns);
  }
  saved->row_max = DeviceArray<float>(context_.allocator, rows);
  saved->sums = DeviceArray<float>(context_.allocator, 2LL * rows);
  const Communicator& tensor = context_.groups.tensor();
  CrossEntropyMax(saved->row_max.data(), saved->logits.data(), rows, columns,
                  context_.compute);
  if (shape.tp > 1) {
    tensor.AllReduce(saved->row_max.data(), saved->row_max.data(), rows,
                     Reduction::kMax, context_.compute);
  }
  CrossEntropySums(saved->sums.data(), saved->logits.data(), saved->row_max.data(),
                   labels, rows, columns, context_.at.tp * columns, context_.compute);
  if (shape.tp > 1) {
    tensor.AllReduce(saved->sums.data(), saved->sums.data(), 2LL * rows,
                     Reduction::kSum, context_.compute);
  }
  // Every tensor-parallel rank has the loss; one of them reports it.
  const float share = context_.at.tp == 0 ? TokenShare() : 0.0f;
  CrossEntropyLoss(loss, saved->sums.data(), rows, share, context_.compute);
}

DeviceArray<Element> LossHead::Backward(const int* labels, float loss_scale,
                                        HeadActivations* saved) const {
  const ModelShape& shape = context_.shape;
  const ParameterLayout& layout = store_.layout();
  const int rows = shape.rows();
  const int columns = shape.rank_vocab();
  CrossEntropyBackward(saved->logits.data(), saved->row_max.data(), saved->sums.data(),
                       labels, rows, columns, context_.at.tp * columns,
                       loss_scale * TokenShare(), context_.compute);
  DeviceArray<Element> gradient(context_.allocator, shape.hidden_elements());
  context_.multiply.InputGradient(gradient.data(), saved->logits.data(),
                                  store_.value(layout.word_embedding), rows,
                                  shape.hidden, columns);
  gradient = ReduceScatterRows(context_, std::move(gradient));
  {
    const GatheredRows norm(context_, saved->norm.output);
    context_.multiply.WeightGradient(store_.gradient(layout.word_embedding),
                                     saved->logits.data(), norm.data(), rows,
                                     shape.hidden, columns);
  }
  BackwardNorm(context_, gradient.data(), gradient.data(), saved->input.data(),
               saved->norm,
               {store_.value(layout.final_norm_weight),
                store_.gradient(layout.final_norm_weight),
                store_.gradient(layout.final_norm_bias)},
               nullptr);
  *saved = HeadActivations();
  return gradient;
}

}  // namespace gpt
