// Where the parameters of one rank lie in its flat buffers, and how they form buckets.
//
// Parameters (bf16) and gradients (fp32) of a rank are one array each, with equal
// offsets. The array is cut into buckets: the unit of the gradient reduce-scatter and
// of the parameter all-gather, each divisible by the data-parallel size. The order is
//
//   replicated | sharded vectors | word embedding | experts | layer 0 | layer 1 | ...
//
// so that backward completes gradients from the end towards the front (chunks of
// layers, too): a bucket can go as soon as everything from its first element on is
// complete. The first four groups
// are complete only after the last layer's backward; they never share a bucket with
// others, because they differ in who sums them (replicated: also over the
// tensor-parallel group; embedding: also first with last stage; experts: other ranks).
//
// Pure arithmetic: no CUDA.

#ifndef EXAMPLES_GPT_TRAINER_PARAMETER_LAYOUT_H_
#define EXAMPLES_GPT_TRAINER_PARAMETER_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "examples/gpt_trainer/model_shape.h"

namespace gpt {

enum class ParameterGroup {
  kReplicated,  // equal on all tensor-parallel ranks: layer norms, row-parallel biases
  kShardedVector,  // biases of column-parallel layers
  kWordEmbedding,
  kExpert,  // weights and biases of experts, spread over the expert-parallel group
  kMatrix,  // weights of the layers
};

// Initial value: normal with this deviation; deviation 0 means `constant`.
struct InitialValue {
  float deviation = 0.0f;
  float constant = 0.0f;
};

struct Parameter {
  ParameterGroup group;
  uint64_t tensor;  // identity in the full model, seeds the initial values
  InitialValue initial;
  long long rows, columns;  // of this rank's part
  long long first_row, first_column, full_columns;
  long long offset;  // elements; a multiple of kParameterAlignment

  long long elements() const { return rows * columns; }
};

// cuBLAS and NCCL are fastest on buffers aligned to 256 bytes: 128 bf16 elements.
inline constexpr long long kParameterAlignment = 128;

// Indices into ParameterLayout::parameters.
struct LayerParameters {
  int norm1_weight, norm1_bias, qkv_weight, qkv_bias, projection_weight,
      projection_bias;
  int norm2_weight, norm2_bias, fc1_weight, fc1_bias, fc2_weight, fc2_bias;
  int router_weight;  // with experts: fc1 and fc2 hold one of each behind the other
};

struct Bucket {
  long long offset;
  long long elements;      // a multiple of replicas * kParameterAlignment
  long long shard_offset;  // of this bucket in the optimizer's arrays
  ParameterGroup group;
  int replicas;  // ranks that hold it; each has a shard in the optimizer

  long long shard() const { return elements / replicas; }
};

struct ParameterLayout {
  std::vector<Parameter> parameters;
  std::vector<LayerParameters> layers;               // of this rank, chunk by chunk
  int word_embedding = -1;                           // first and last stage
  int position_embedding = -1;                       // first stage
  int final_norm_weight = -1, final_norm_bias = -1;  // last stage
  std::vector<Bucket> buckets;                       // by ascending offset
  long long elements = 0;                            // with padding
  long long shard_elements = 0;                      // of all buckets

  // Index of the bucket that holds this element.
  int BucketOf(long long offset) const;
};

// `bucket_bytes`: gradients per bucket; a bucket is closed once it reaches that.
ParameterLayout MakeParameterLayout(const ModelShape& shape, const Coordinates& at,
                                    long long bucket_bytes);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_PARAMETER_LAYOUT_H_
