// With cp = 1 the ring has one step, and keys and values stay where they are in qkv.

#include "examples/gpt_trainer/fused_attention.h"

#include <utility>

#include "examples/gpt_trainer/overlap.h"

namespace gpt {
namespace {

template <typename Rows>
Rows InQkv(decltype(Rows::data) qkv, const AttentionSize& size, int which) {
  const int head_stride = 3 * size.head_size;
  return {qkv + which * size.head_size, size.heads * head_stride, head_stride};
}

// `which`: 0 key, 1 value.
template <typename Rows>
Rows InPacked(decltype(Rows::data) packed, const AttentionSize& size, int which) {
  const int head_stride = 2 * size.head_size;
  return {packed + which * size.head_size, size.heads * head_stride, head_stride};
}

template <typename Rows>
Rows InContext(decltype(Rows::data) rows, const AttentionSize& size) {
  return {rows, size.heads * size.head_size, size.head_size};
}

// What goes around the ring: this rank's part, and the one that comes in.
class Ring {
 public:
  Ring(const RankContext& context, const AttentionSize& size)
      : context_(context),
        elements_(2LL * size.rows * size.heads * size.head_size),
        here_(context.allocator, elements_),
        coming_(context.allocator, elements_) {}

  Element* here() const { return here_.data(); }

  // Sends to the next rank and receives from the one before, on the second stream.
  // Afterwards Turn() makes what came the part that is here.
  void Pass() const {
    const Communicator& ring = context_.groups.context();
    const int next = (ring.rank() + 1) % ring.size();
    const int previous = (ring.rank() + ring.size() - 1) % ring.size();
    ring.Exchange({SendTo(next, here_.data(), elements_),
                   ReceiveFrom(previous, coming_.data(), elements_)},
                  context_.overlap->stream());
  }
  void Turn() { std::swap(here_, coming_); }

 private:
  const RankContext& context_;
  long long elements_;
  DeviceArray<Element> here_;
  DeviceArray<Element> coming_;
};

// Whose part is here in this step.
Positions PositionsInStep(const RankContext& context, int step) {
  const int cp = context.shape.cp;
  return context.shape.PositionsOf((context.at.cp - step + cp) % cp);
}

}  // namespace

AttentionSize FusedAttentionSize(const ModelShape& shape) {
  return {shape.rows(), shape.micro_batch_size, shape.rank_heads(), shape.head_size()};
}

void FusedAttention(const RankContext& context, Element* context_rows, float* log_sums,
                    const Element* qkv) {
  const ModelShape& shape = context.shape;
  const AttentionSize size = FusedAttentionSize(shape);
  const Positions mine = shape.PositionsOf(context.at.cp);
  const auto query = InQkv<ConstHeadRows>(qkv, size, 0);
  const auto out = InContext<HeadRows>(context_rows, size);
  if (shape.cp == 1) {
    FusedAttentionForward(out, log_sums, query, InQkv<ConstHeadRows>(qkv, size, 1),
                          InQkv<ConstHeadRows>(qkv, size, 2), size, mine, mine, false,
                          context.compute);
    return;
  }
  Ring keys(context, size);
  PackKeysAndValues(keys.here(), qkv, size, context.compute);
  for (int step = 0; step < shape.cp; ++step) {
    context.overlap->Begin();
    if (step + 1 < shape.cp) {
      keys.Pass();
    }
    FusedAttentionForward(out, log_sums, query,
                          InPacked<ConstHeadRows>(keys.here(), size, 0),
                          InPacked<ConstHeadRows>(keys.here(), size, 1), size, mine,
                          PositionsInStep(context, step), step > 0, context.compute);
    context.overlap->End();
    keys.Turn();
  }
}

void FusedAttentionGradient(const RankContext& context, Element* dqkv,
                            const Element* dcontext_rows,
                            const FusedAttentionSaved& saved) {
  const ModelShape& shape = context.shape;
  const AttentionSize size = FusedAttentionSize(shape);
  const Positions mine = shape.PositionsOf(context.at.cp);
  const auto dquery = InQkv<HeadRows>(dqkv, size, 0);
  AttentionSaved kept{InQkv<ConstHeadRows>(saved.qkv, size, 0),
                      InQkv<ConstHeadRows>(saved.qkv, size, 1),
                      InQkv<ConstHeadRows>(saved.qkv, size, 2),
                      InContext<ConstHeadRows>(dcontext_rows, size),
                      saved.log_sums,
                      saved.delta};
  if (shape.cp == 1) {
    FusedAttentionBackwardQuery(dquery, kept, size, mine, mine, false, context.compute);
    FusedAttentionBackwardKey(InQkv<HeadRows>(dqkv, size, 1),
                              InQkv<HeadRows>(dqkv, size, 2), kept, size, mine, mine,
                              false, context.compute);
    return;
  }
  Ring keys(context, size);
  Ring gradients(context, size);
  PackKeysAndValues(keys.here(), saved.qkv, size, context.compute);
  for (int step = 0; step < shape.cp; ++step) {
    const Positions theirs = PositionsInStep(context, step);
    kept.key = InPacked<ConstHeadRows>(keys.here(), size, 0);
    kept.value = InPacked<ConstHeadRows>(keys.here(), size, 1);
    context.overlap->Begin();
    if (step + 1 < shape.cp) {
      keys.Pass();
    }
    FusedAttentionBackwardKey(InPacked<HeadRows>(gradients.here(), size, 0),
                              InPacked<HeadRows>(gradients.here(), size, 1), kept, size,
                              mine, theirs, step > 0, context.compute);
    context.overlap->Begin();
    gradients.Pass();
    FusedAttentionBackwardQuery(dquery, kept, size, mine, theirs, step > 0,
                                context.compute);
    context.overlap->End();
    keys.Turn();
    gradients.Turn();
  }
  UnpackKeysAndValues(dqkv, gradients.here(), size, context.compute);
}

}  // namespace gpt
