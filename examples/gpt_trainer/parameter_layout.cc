// First the list of parameters, then offsets group by group, closing buckets on the
// way.

#include "examples/gpt_trainer/parameter_layout.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace gpt {
namespace {

// Deviations of GPT-2: 0.02, and for what is added to the residual stream 0.02 over the
// root of the number of additions.
constexpr float kDeviation = 0.02f;
constexpr InitialValue kNormal{kDeviation, 0.0f};
constexpr InitialValue kZero{0.0f, 0.0f};
constexpr InitialValue kOne{0.0f, 1.0f};

// Tensor identities. A layer takes kTensorsPerLayer numbers from kFirstLayerTensor on.
constexpr uint64_t kWordTensor = 0;
constexpr uint64_t kPositionTensor = 1;
constexpr uint64_t kFinalNormTensor = 2;
constexpr uint64_t kFirstLayerTensor = 16;
constexpr uint64_t kTensorsPerLayer = 16;

class Builder {
 public:
  Builder(const ModelShape& shape, const Coordinates& at) : shape_(shape), at_(at) {}

  ParameterLayout Build(long long bucket_bytes);

 private:
  int Replicated(uint64_t tensor, InitialValue initial, long long rows,
                 long long columns) {
    return Add({ParameterGroup::kReplicated, tensor, initial, rows, columns, 0, 0,
                columns, 0});
  }
  int ShardedVector(uint64_t tensor, long long columns) {
    return Add({ParameterGroup::kShardedVector, tensor, kZero, 1, columns, 0,
                at_.tp * columns, columns * shape_.tp, 0});
  }
  // The rank's rows of a matrix (column-parallel layer: outputs are split).
  int RowsOf(ParameterGroup group, uint64_t tensor, long long rows, long long columns) {
    return Add({group, tensor, kNormal, rows, columns, at_.tp * rows, 0, columns, 0});
  }
  // The rank's columns of a matrix (row-parallel layer: inputs are split).
  int ColumnsOf(uint64_t tensor, long long rows, long long columns) {
    const float additions = 2.0f * static_cast<float>(shape_.layers);
    return Add({ParameterGroup::kMatrix,
                tensor,
                {kDeviation / std::sqrt(additions), 0},
                rows,
                columns,
                0,
                at_.tp * columns,
                columns * shape_.tp,
                0});
  }
  int Add(const Parameter& parameter) {
    layout_.parameters.push_back(parameter);
    return static_cast<int>(layout_.parameters.size()) - 1;
  }

  LayerParameters AddLayer(int layer);
  void AddExperts(uint64_t tensor, LayerParameters* p);
  void AssignOffsets(ParameterGroup group, long long bucket_bytes);
  void CloseBucket(ParameterGroup group, long long first);

  const ModelShape& shape_;
  const Coordinates& at_;
  ParameterLayout layout_;
};

LayerParameters Builder::AddLayer(int layer) {
  const uint64_t tensor =
      kFirstLayerTensor + static_cast<uint64_t>(layer) * kTensorsPerLayer;
  const long long hidden = shape_.hidden;
  LayerParameters p{};
  p.norm1_weight = Replicated(tensor + 0, kOne, 1, hidden);
  p.norm1_bias = Replicated(tensor + 1, kZero, 1, hidden);
  p.qkv_weight =
      RowsOf(ParameterGroup::kMatrix, tensor + 2, 3LL * shape_.rank_hidden(), hidden);
  p.qkv_bias = ShardedVector(tensor + 3, 3LL * shape_.rank_hidden());
  p.projection_weight = ColumnsOf(tensor + 4, hidden, shape_.rank_hidden());
  p.projection_bias = Replicated(tensor + 5, kZero, 1, hidden);
  p.norm2_weight = Replicated(tensor + 6, kOne, 1, hidden);
  p.norm2_bias = Replicated(tensor + 7, kZero, 1, hidden);
  if (shape_.experts > 0) {
    AddExperts(tensor, &p);
    return p;
  }
  p.fc1_weight = RowsOf(ParameterGroup::kMatrix, tensor + 8, shape_.rank_ffn(), hidden);
  p.fc1_bias = ShardedVector(tensor + 9, shape_.rank_ffn());
  p.fc2_weight = ColumnsOf(tensor + 10, hidden, shape_.rank_ffn());
  p.fc2_bias = Replicated(tensor + 11, kZero, 1, hidden);
  return p;
}

// The experts of this rank are rows of a tall matrix: expert 0, expert 1, ...
void Builder::AddExperts(uint64_t tensor, LayerParameters* p) {
  const long long h = shape_.hidden;
  const long long f = shape_.ffn();
  const int experts = shape_.experts / shape_.ep;
  const int first = at_.dp % shape_.ep * experts;
  const auto stack = [&](uint64_t number, InitialValue initial, long long rows,
                         long long columns) {
    return Add({ParameterGroup::kExpert, number, initial, experts * rows, columns,
                first * rows, 0, columns, 0});
  };
  const float additions = 2.0f * static_cast<float>(shape_.layers);
  p->fc1_weight = stack(tensor + 8, kNormal, f, h);
  p->fc1_bias = stack(tensor + 9, kZero, 1, f);
  p->fc2_weight = stack(tensor + 10, {kDeviation / std::sqrt(additions), 0}, h, f);
  p->fc2_bias = stack(tensor + 11, kZero, 1, h);
  p->router_weight = Replicated(tensor + 12, kNormal, shape_.experts, h);
}

long long AlignUp(long long value, long long step) {
  return (value + step - 1) / step * step;
}

void Builder::CloseBucket(ParameterGroup group, long long first) {
  const int replicas =
      group == ParameterGroup::kExpert ? shape_.expert_replicas() : shape_.replicas();
  layout_.elements =
      first + AlignUp(layout_.elements - first, kParameterAlignment * replicas);
  layout_.buckets.push_back(
      {first, layout_.elements - first, layout_.shard_elements, group, replicas});
  layout_.shard_elements += layout_.buckets.back().shard();
}

void Builder::AssignOffsets(ParameterGroup group, long long bucket_bytes) {
  const long long bucket_elements =
      bucket_bytes / static_cast<long long>(sizeof(float));
  long long first = layout_.elements;
  for (Parameter& parameter : layout_.parameters) {
    if (parameter.group != group) {
      continue;
    }
    parameter.offset = layout_.elements;
    layout_.elements += AlignUp(parameter.elements(), kParameterAlignment);
    if ((group == ParameterGroup::kMatrix || group == ParameterGroup::kExpert) &&
        layout_.elements - first >= bucket_elements) {
      CloseBucket(group, first);
      first = layout_.elements;
    }
  }
  if (layout_.elements > first) {
    CloseBucket(group, first);
  }
}

ParameterLayout Builder::Build(long long bucket_bytes) {
  const bool first = shape_.first_stage(at_.pp);
  const bool last = shape_.last_stage(at_.pp);
  if (first || last) {
    layout_.word_embedding = RowsOf(ParameterGroup::kWordEmbedding, kWordTensor,
                                    shape_.rank_vocab(), shape_.hidden);
  }
  if (first) {
    layout_.position_embedding =
        Replicated(kPositionTensor, kNormal, shape_.sequence, shape_.hidden);
  }
  for (int chunk = 0; chunk < shape_.virtual_stages; ++chunk) {
    const int stage = chunk * shape_.pp + at_.pp;
    for (int i = 0; i < shape_.chunk_layers(); ++i) {
      layout_.layers.push_back(AddLayer(stage * shape_.chunk_layers() + i));
    }
  }
  if (last) {
    layout_.final_norm_weight = Replicated(kFinalNormTensor, kOne, 1, shape_.hidden);
    layout_.final_norm_bias = Replicated(kFinalNormTensor + 1, kZero, 1, shape_.hidden);
  }
  for (ParameterGroup group :
       {ParameterGroup::kReplicated, ParameterGroup::kShardedVector,
        ParameterGroup::kWordEmbedding, ParameterGroup::kExpert,
        ParameterGroup::kMatrix}) {
    AssignOffsets(group, bucket_bytes);
  }
  return std::move(layout_);
}

}  // namespace

int ParameterLayout::BucketOf(long long offset) const {
  const auto after = std::upper_bound(
      buckets.begin(), buckets.end(), offset,
      [](long long value, const Bucket& bucket) { return value < bucket.offset; });
  return static_cast<int>(std::distance(buckets.begin(), after)) - 1;
}

ParameterLayout MakeParameterLayout(const ModelShape& shape, const Coordinates& at,
                                    long long bucket_bytes) {
  return Builder(shape, at).Build(bucket_bytes);
}

}  // namespace gpt
