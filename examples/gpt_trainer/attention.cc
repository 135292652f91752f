// Shapes per head: query, key, value, context [s, d]; scores [s, s].

#include "examples/gpt_trainer/attention.h"

#include <cmath>
#include <utility>

#include "examples/gpt_trainer/fused_attention.h"

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

void AttentionForward(const RankContext& context, AttentionActivations* saved) {
  const ModelShape& shape = context.shape;
  const long long rows = shape.rows();
  if (shape.fused_attention()) {
    saved->log_sums = DeviceArray<float>(context.allocator, rows * shape.rank_heads());
    saved->context =
        DeviceArray<Element>(context.allocator, rows * shape.rank_hidden());
    FusedAttention(context, saved->context.data(), saved->log_sums.data(),
                   saved->qkv.data());
    return;
  }
  const Attention attention(context);
  const Element* qkv = saved->qkv.data();
  saved->context = DeviceArray<Element>(context.allocator, rows * shape.rank_hidden());
  DeviceArray<Element> probabilities = attention.Probabilities(qkv);
  context.multiply.Batched(attention.FromScores(), 1.0f,
                           attention.Scores(probabilities.data()), attention.Value(qkv),
                           attention.RowsResult(saved->context.data()));
  if (shape.recompute != Recompute::kSelective) {
    saved->probabilities = std::move(probabilities);
  }
}

namespace {

void BatchedBackward(const RankContext& context, Element* dqkv,
                     const Element* dcontext_rows, AttentionActivations* saved) {
  const Attention attention(context);
  const MatrixMultiply& multiply = context.multiply;
  const Element* qkv = saved->qkv.data();
  const DeviceArray<Element> probabilities = saved->probabilities.empty()
                                                 ? attention.Probabilities(qkv)
                                                 : std::move(saved->probabilities);
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

}  // namespace

void AttentionBackward(const RankContext& context, Element* dqkv,
                       const Element* dcontext_rows, AttentionActivations* saved) {
  if (!context.shape.fused_attention()) {
    BatchedBackward(context, dqkv, dcontext_rows, saved);
    return;
  }
  const AttentionSize size = FusedAttentionSize(context.shape);
  const DeviceArray<float> delta(context.allocator, 1LL * size.rows * size.heads);
  FusedAttentionDelta(delta.data(), saved->context.data(), dcontext_rows, size,
                      context.compute);
  saved->context.Reset();
  FusedAttentionGradient(context, dqkv, dcontext_rows,
                         {saved->qkv.data(), saved->log_sums.data(), delta.data()});
  saved->log_sums.Reset();
}

}  // namespace gpt
