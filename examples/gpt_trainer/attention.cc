// Shapes per head: query, key, value, context [s, d]; scores [s, s].

#include "examples/gpt_trainer/attention.h"

#include <cmath>

namespace gpt {
namespace {

class Attention {
 public:
  explicit Attention(const RankContext& context)
      : context_(context),
        d_(context.shape.head_size()),
        s_(context.shape.sequence),
        batch_(context.shape.micro_batch_size * context.shape.rank_heads()),
        scale_(1.0f / std::sqrt(static_cast<float>(d_))) {}

  float scale() const { return scale_; }

  BatchedOperand Query(const Element* qkv, bool transposed = false) const {
    return {qkv, 3 * batch_ * d_, 3LL * d_, transposed};
  }
  BatchedOperand Key(const Element* qkv, bool transposed = false) const {
    return {qkv + d_, 3 * batch_ * d_, 3LL * d_, transposed};
  }
  BatchedOperand Value(const Element* qkv, bool transposed = false) const {
    return {qkv + 2 * d_, 3 * batch_ * d_, 3LL * d_, transposed};
  }
  BatchedResult Gradient(Element* dqkv, int which) const {
    return {dqkv + which * d_, 3 * batch_ * d_, 3LL * d_};
  }
  BatchedOperand Rows(const Element* rows) const { return {rows, batch_ * d_, d_}; }
  BatchedResult RowsResult(Element* rows) const { return {rows, batch_ * d_, d_}; }
  BatchedOperand Scores(const Element* scores, bool transposed = false) const {
    return {scores, s_, 1LL * s_ * s_, transposed};
  }
  BatchedResult ScoresResult(Element* scores) const {
    return {scores, s_, 1LL * s_ * s_};
  }

  BatchedSize ToScores() const { return {s_, s_, d_, batch_}; }
  BatchedSize FromScores() const { return {s_, d_, s_, batch_}; }

  // softmax(scale q k^T)
  DeviceArray<Element> Probabilities(const Element* qkv) const {
    DeviceArray<Element> scores(context_.allocator, context_.shape.score_elements());
    context_.multiply.Batched(ToScores(), scale_, Query(qkv), Key(qkv, true),
                              ScoresResult(scores.data()));
    CausalSoftmax(scores.data(), 1LL * batch_ * s_, s_, context_.compute);
    return scores;
  }
  void SoftmaxBackward(Element* gradient, const Element* probabilities) const {
    CausalSoftmaxBackward(gradient, probabilities, 1LL * batch_ * s_, s_,
                          context_.compute);
  }

 private:
  const RankContext& context_;
  int d_;
  int s_;
  int batch_;
  float scale_;
};

}  // namespace

void AttentionForward(const RankContext& context, Element* context_rows,
                      const Element* qkv) {
  const Attention attention(context);
  const DeviceArray<Element> probabilities = attention.Probabilities(qkv);
  context.multiply.Batched(attention.FromScores(), 1.0f,
                           attention.Scores(probabilities.data()), attention.Value(qkv),
                           attention.RowsResult(context_rows));
}

void AttentionBackward(const RankContext& context, Element* dqkv,
                       const Element* dcontext_rows, const Element* qkv) {
  const Attention attention(context);
  const MatrixMultiply& multiply = context.multiply;
  const DeviceArray<Element> probabilities = attention.Probabilities(qkv);
  // dv = p^T dc
  multiply.Batched(attention.FromScores(), 1.0f,
                   attention.Scores(probabilities.data(), true),
                   attention.Rows(dcontext_rows), attention.Gradient(dqkv, 2));
  // dp = dc v^T, then the gradient of the scores in its place
  const DeviceArray<Element> scores(context.allocator, context.shape.score_elements());
  multiply.Batched(attention.ToScores(), 1.0f, attention.Rows(dcontext_rows),
                   attention.Value(qkv, true), attention.ScoresResult(scores.data()));
  attention.SoftmaxBackward(scores.data(), probabilities.data());
  // dq = scale ds k, dk = scale ds^T q
  multiply.Batched(attention.FromScores(), attention.scale(),
                   attention.Scores(scores.data()), attention.Key(qkv),
                   attention.Gradient(dqkv, 0));
  multiply.Batched(attention.FromScores(), attention.scale(),
                   attention.Scores(scores.data(), true), attention.Query(qkv),
                   attention.Gradient(dqkv, 1));
}

}  // namespace gpt
