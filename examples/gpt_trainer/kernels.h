// The CUDA kernels of the model, as functions that launch them.
//
// No CUDA syntax here, so that host code is compiled by the host compiler alone. All
// take [rows, columns] arrays in row-major order and return at once; `stream` orders
// them. Sums are accumulated in fp32.

#ifndef EXAMPLES_GPT_TRAINER_KERNELS_H_
#define EXAMPLES_GPT_TRAINER_KERNELS_H_

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "examples/gpt_trainer/element_math.h"

namespace gpt {

using bf16 = __nv_bfloat16;

// --- layer_norm.cu
// ---------------------------------------------------------------------

// y = normalize(x) * weight + bias per row; mean and 1/deviation are kept for backward.
void LayerNormForward(bf16* y, float* mean, float* inverse_deviation, const bf16* x,
                      const bf16* weight, const bf16* bias, int rows, int columns,
                      cudaStream_t stream);

struct LayerNormSaved {
  const bf16* x;
  const float* mean;
  const float* inverse_deviation;
};

// dx = gradient of the layer norm + residual (may be null); dx may be residual itself.
void LayerNormBackward(bf16* dx, const bf16* dy, const LayerNormSaved& saved,
                       const bf16* weight, const bf16* residual, int rows, int columns,
                       cudaStream_t stream);

// weight_gradient, bias_gradient += sums over rows.
void LayerNormParameterGradients(float* weight_gradient, float* bias_gradient,
                                 const bf16* dy, const LayerNormSaved& saved, int rows,
                                 int columns, cudaStream_t stream);

// --- elementwise.cu
// --------------------------------------------------------------------

// x += bias, to each row.
void AddBias(bf16* x, const bf16* bias, long long rows, int columns,
             cudaStream_t stream);
// x += bias in place, y = gelu(x).
void BiasGelu(bf16* y, bf16* x, const bf16* bias, long long rows, int columns,
              cudaStream_t stream);
// dx = dy * gelu'(x); dx may be dy.
void GeluBackward(bf16* dx, const bf16* dy, const bf16* x, long long elements,
                  cudaStream_t stream);
// y = x + bias + residual.
void BiasResidual(bf16* y, const bf16* x, const bf16* bias, const bf16* residual,
                  long long rows, int columns, cudaStream_t stream);
// gradient[c] += sum over rows of x[r, c].
void BiasGradient(float* gradient, const bf16* x, int rows, int columns,
                  cudaStream_t stream);

// --- softmax.cu
// ------------------------------------------------------------------------

// scores: [matrices * sequence, sequence], softmax in place over the columns that a row
// may attend to (its own and earlier positions), zero elsewhere.
void CausalSoftmax(bf16* scores, long long rows, int sequence, cudaStream_t stream);
// gradient (of the probabilities) becomes the gradient of the scores, in place.
void CausalSoftmaxBackward(bf16* gradient, const bf16* probabilities, long long rows,
                           int sequence, cudaStream_t stream);

// --- embedding.cu
// ----------------------------------------------------------------------

// y[r] = table[token[r] - first], zero where the token is in another rank's table.
void EmbeddingForward(bf16* y, const bf16* table, const int* tokens, int rows,
                      int columns, int first_token, int table_tokens,
                      cudaStream_t stream);
// gradient[token[r] - first] += dy[r].
void EmbeddingBackward(float* gradient, const bf16* dy, const int* tokens, int rows,
                       int columns, int first_token, int table_tokens,
                       cudaStream_t stream);
// x[r] += table[first_position + r / batch].
void AddPositions(bf16* x, const bf16* table, int rows, int columns, int batch,
                  int first_position, cudaStream_t stream);
// gradient[first_position + r / batch] += dx[r].
void PositionsBackward(float* gradient, const bf16* dx, int rows, int columns,
                       int batch, int first_position, cudaStream_t stream);

// --- cross_entropy.cu
// ------------------------------------------------------------------ The logits of a
// row are spread over the tensor-parallel ranks; each holds the columns from
// `first_token` on. Between the steps the caller reduces row_max (max) and sums (sum).

// row_max[r] = max over this rank's columns.
void CrossEntropyMax(float* row_max, const bf16* logits, int rows, int columns,
                     cudaStream_t stream);
// sums[r] = sum of exp(logit - max); sums[rows + r] = logit of the label - max, or 0.
void CrossEntropySums(float* sums, const bf16* logits, const float* row_max,
                      const int* labels, int rows, int columns, int first_token,
                      cudaStream_t stream);
// *loss += scale * sum over rows of (log(sums[r]) - sums[rows + r]).
void CrossEntropyLoss(float* loss, const float* sums, int rows, float scale,
                      cudaStream_t stream);
// logits become their gradient: scale * (probability - [column is the label]).
void CrossEntropyBackward(bf16* logits, const float* row_max, const float* sums,
                          const int* labels, int rows, int columns, int first_token,
                          float scale, cudaStream_t stream);

// --- optimizer.cu
// ----------------------------------------------------------------------

inline constexpr int kSquareSumBlocks = 256;
// partial[0 .. kSquareSumBlocks) = weight * sums of squares of parts of x. Parts and
// order are fixed: the same input gives the same bits.
void SquareSums(float* partial, const float* x, long long elements, float weight,
                cudaStream_t stream);
// *sum = sum of partial[0 .. count).
void SumPartials(float* sum, const float* partial, int count, cudaStream_t stream);

struct AdamState {
  float* master;
  float* momentum;
  float* variance;
};
// One step over a shard; the new master weights are also written as bf16.
void AdamW(bf16* parameters, const AdamState& state, const float* gradients,
           long long elements, const AdamStep& step, cudaStream_t stream);

// --- initialize.cu
// ---------------------------------------------------------------------

// A rank's part of a matrix: element (r, c) is element (first_row + r, first_column +
// c) of a matrix with `full_columns` columns.
struct MatrixPart {
  long long rows;
  long long columns;
  long long first_row;
  long long first_column;
  long long full_columns;
};
// weights = deviation * RoughlyNormal(seed, tensor, index in the full matrix).
void InitializeNormal(bf16* weights, const MatrixPart& part, uint64_t seed,
                      uint64_t tensor, float deviation, cudaStream_t stream);
void Fill(bf16* values, long long elements, float value, cudaStream_t stream);
void CopyToMaster(float* master, const bf16* parameters, long long elements,
                  cudaStream_t stream);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_KERNELS_H_
