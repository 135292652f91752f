// Causal attention without scores in memory, forward and backward: a block per row and
// head, whose scores lie in shared memory.
//
// The softmax over keys that come in parts follows Milakov and Gimelshein 2018, "Online
// normalizer calculation for softmax"; what backward keeps and computes again, Dao et
// al. 2022, "FlashAttention". Sums run on the vector units: short, and correct on both
// backends; a tuned kernel would use the tensor cores.

#include "examples/gpt_trainer/kernels/kernels.h"
#include "kernel_tools.h"

namespace gpt {

GPT_HOST_DEVICE inline float LogOfSum(float a, float b) {
  const float largest = a > b ? a : b;
  return largest + logf(expf(a - largest) + expf(b - largest));
}

// What a block works on: one head of one row.
struct Head {
  GPT_HOST_DEVICE Head(long long index, int heads, int batch)
      : row(index / heads),
        head(static_cast<int>(index % heads)),
        position(static_cast<int>(row / batch)),
        sequence(static_cast<int>(row % batch)),
        batch_(batch) {}

  // Row of another position of the same sequence.
  GPT_HOST_DEVICE long long RowOf(int other) const {
    return 1LL * other * batch_ + sequence;
  }
  template <typename Rows>
  GPT_HOST_DEVICE auto In(const Rows& rows, long long at) const {
    return rows.data + at * rows.row_stride + 1LL * head * rows.head_stride;
  }

  long long row;
  int head;
  int position;  // local
  int sequence;

 private:
  int batch_;
};

// Numbers come before structs in the kernels' parameters: their places in memory follow
// from the kernel's name then, which a cost description (kernels.textproto) needs.

GPT_KERNEL void fused_attention_forward(int batch, int heads, int head_size,
                                        int accumulate, float scale, float* log_sums,
                                        HeadRows context, ConstHeadRows query,
                                        ConstHeadRows key, ConstHeadRows value,
                                        Positions at, Positions keys_at) {
  const Block block;
  const Head me(block.index(), heads, batch);
  const int visible = keys_at.UpTo(at.at(me.position));
  if (visible == 0) {
    return;  // an earlier part was seen: each position sees itself
  }
  const Element* q = me.In(query, me.row);
  Element* out = me.In(context, me.row);
  float* scores = block.shared();
  block.ForEach(visible, [&](int j) {
    const Element* k = me.In(key, me.RowOf(j));
    float dot = 0.0f;
    for (int c = 0; c < head_size; ++c) {
      dot += ToFloat(q[c]) * ToFloat(k[c]);
    }
    scores[j] = scale * dot;
  });
  const float largest = block.Largest(visible, [&](int j) { return scores[j]; });
  const float sum =
      block.Sum(visible, [&](int j) { return expf(scores[j] - largest); });
  float total = largest + logf(sum);
  const float before = accumulate ? log_sums[block.index()] : 0.0f;
  if (accumulate) {
    total = LogOfSum(total, before);
  }
  block.Barrier();  // the scores, and `before`, were read and written by all
  block.ForEach(head_size, [&](int c) {
    float mean = accumulate ? expf(before - total) * ToFloat(out[c]) : 0.0f;
    for (int j = 0; j < visible; ++j) {
      mean += expf(scores[j] - total) * ToFloat(me.In(value, me.RowOf(j))[c]);
    }
    out[c] = ToElement(mean);
  });
  block.Once([&] { log_sums[block.index()] = total; });
}

GPT_KERNEL void fused_attention_delta(float* delta, const Element* context,
                                      const Element* dcontext, int head_size) {
  const Block block;
  const long long start = block.index() * head_size;
  const float sum = block.Sum(head_size, [&](int c) {
    return ToFloat(context[start + c]) * ToFloat(dcontext[start + c]);
  });
  block.Once([&] { delta[block.index()] = sum; });
}

// With p the probability of a key and dp = dcontext . value: the gradient of its score
// is p (dp - delta).
struct ScoreGradient {
  float probability;
  float gradient;
};

GPT_HOST_DEVICE inline ScoreGradient GradientOfScore(const Element* q, const Element* k,
                                                     const Element* v,
                                                     const Element* dcontext,
                                                     int head_size, float scale,
                                                     float log_sum, float delta) {
  float score = 0.0f;
  float dp = 0.0f;
  for (int c = 0; c < head_size; ++c) {
    score += ToFloat(q[c]) * ToFloat(k[c]);
    dp += ToFloat(dcontext[c]) * ToFloat(v[c]);
  }
  const float p = expf(scale * score - log_sum);
  return {p, p * (dp - delta)};
}

GPT_KERNEL void fused_attention_backward_query(
    int batch, int heads, int head_size, int accumulate, float scale,
    const float* log_sums, const float* delta, HeadRows dquery, ConstHeadRows query,
    ConstHeadRows key, ConstHeadRows value, ConstHeadRows dcontext, Positions at,
    Positions keys_at) {
  const Block block;
  const Head me(block.index(), heads, batch);
  const int visible = keys_at.UpTo(at.at(me.position));
  if (visible == 0) {
    return;
  }
  float* gradients = block.shared();
  block.ForEach(visible, [&](int j) {
    const long long row = me.RowOf(j);
    gradients[j] =
        GradientOfScore(me.In(query, me.row), me.In(key, row), me.In(value, row),
                        me.In(dcontext, me.row), head_size, scale,
                        log_sums[block.index()], delta[block.index()])
            .gradient;
  });
  block.Barrier();
  Element* out = me.In(dquery, me.row);
  block.ForEach(head_size, [&](int c) {
    float sum = 0.0f;
    for (int j = 0; j < visible; ++j) {
      sum += gradients[j] * ToFloat(me.In(key, me.RowOf(j))[c]);
    }
    out[c] = ToElement(scale * sum + (accumulate ? ToFloat(out[c]) : 0.0f));
  });
}

// A block per key.
GPT_KERNEL void fused_attention_backward_key(
    int queries, int batch, int heads, int head_size, int accumulate, float scale,
    const float* log_sums, const float* delta, HeadRows dkey, HeadRows dvalue,
    ConstHeadRows query, ConstHeadRows key, ConstHeadRows value, ConstHeadRows dcontext,
    Positions at, Positions keys_at) {
  const Block block;
  const Head me(block.index(), heads, batch);
  const int blind = at.UpTo(keys_at.at(me.position) - 1);  // queries before this key
  float* probabilities = block.shared();
  float* gradients = block.shared() + queries;
  block.ForEach(queries - blind, [&](int n) {
    const int i = blind + n;
    const long long row = me.RowOf(i);
    const long long row_and_head = row * heads + me.head;
    const ScoreGradient score =
        GradientOfScore(me.In(query, row), me.In(key, me.row), me.In(value, me.row),
                        me.In(dcontext, row), head_size, scale, log_sums[row_and_head],
                        delta[row_and_head]);
    probabilities[i] = score.probability;
    gradients[i] = score.gradient;
  });
  block.Barrier();
  Element* dk = me.In(dkey, me.row);
  Element* dv = me.In(dvalue, me.row);
  block.ForEach(head_size, [&](int c) {
    float key_sum = 0.0f;
    float value_sum = 0.0f;
    for (int i = blind; i < queries; ++i) {
      const long long row = me.RowOf(i);
      key_sum += gradients[i] * ToFloat(me.In(query, row)[c]);
      value_sum += probabilities[i] * ToFloat(me.In(dcontext, row)[c]);
    }
    dk[c] = ToElement(scale * key_sum + (accumulate ? ToFloat(dk[c]) : 0.0f));
    dv[c] = ToElement(value_sum + (accumulate ? ToFloat(dv[c]) : 0.0f));
  });
}

// qkv: [rows * heads, 3, head_size]; packed: [rows * heads, 2, head_size].
GPT_KERNEL void pack_keys_and_values(Element* packed, const Element* qkv,
                                     int head_size) {
  const Block block;
  const int both = 2 * head_size;
  block.ForEach(both, [&](int c) {
    packed[block.index() * both + c] =
        qkv[block.index() * 3 * head_size + head_size + c];
  });
}

GPT_KERNEL void unpack_keys_and_values(Element* qkv, const Element* packed,
                                       int head_size) {
  const Block block;
  const int both = 2 * head_size;
  block.ForEach(both, [&](int c) {
    qkv[block.index() * 3 * head_size + head_size + c] =
        packed[block.index() * both + c];
  });
}

namespace {

long long Blocks(const AttentionSize& size) {
  return 1LL * size.rows * size.heads;
}
float Scale(const AttentionSize& size) {
  return 1.0f / std::sqrt(static_cast<float>(size.head_size));
}

}  // namespace

void FusedAttentionForward(const HeadRows& context, float* log_sums,
                           const ConstHeadRows& query, const ConstHeadRows& key,
                           const ConstHeadRows& value, const AttentionSize& size,
                           const Positions& at, const Positions& keys_at,
                           bool accumulate, StreamHandle stream) {
  const int keys = size.rows / size.batch;
  LaunchBlocksWithShared(stream, Blocks(size), keys, fused_attention_forward,
                         size.batch, size.heads, size.head_size, int{accumulate},
                         Scale(size), log_sums, context, query, key, value, at,
                         keys_at);
}

void FusedAttentionDelta(float* delta, const Element* context, const Element* dcontext,
                         const AttentionSize& size, StreamHandle stream) {
  LaunchBlocks(stream, Blocks(size), fused_attention_delta, delta, context, dcontext,
               size.head_size);
}

void FusedAttentionBackwardQuery(const HeadRows& dquery, const AttentionSaved& saved,
                                 const AttentionSize& size, const Positions& at,
                                 const Positions& keys_at, bool accumulate,
                                 StreamHandle stream) {
  const int keys = size.rows / size.batch;
  LaunchBlocksWithShared(stream, Blocks(size), keys, fused_attention_backward_query,
                         size.batch, size.heads, size.head_size, int{accumulate},
                         Scale(size), saved.log_sums, saved.delta, dquery, saved.query,
                         saved.key, saved.value, saved.dcontext, at, keys_at);
}

void FusedAttentionBackwardKey(const HeadRows& dkey, const HeadRows& dvalue,
                               const AttentionSaved& saved, const AttentionSize& size,
                               const Positions& at, const Positions& keys_at,
                               bool accumulate, StreamHandle stream) {
  const int queries = size.rows / size.batch;
  LaunchBlocksWithShared(stream, Blocks(size), 2LL * queries,
                         fused_attention_backward_key, queries, size.batch, size.heads,
                         size.head_size, int{accumulate}, Scale(size), saved.log_sums,
                         saved.delta, dkey, dvalue, saved.query, saved.key, saved.value,
                         saved.dcontext, at, keys_at);
}

void PackKeysAndValues(Element* packed, const Element* qkv, const AttentionSize& size,
                       StreamHandle stream) {
  LaunchBlocks(stream, Blocks(size), pack_keys_and_values, packed, qkv, size.head_size);
}

void UnpackKeysAndValues(Element* qkv, const Element* packed, const AttentionSize& size,
                         StreamHandle stream) {
  LaunchBlocks(stream, Blocks(size), unpack_keys_and_values, qkv, packed,
               size.head_size);
}

}  // namespace gpt
