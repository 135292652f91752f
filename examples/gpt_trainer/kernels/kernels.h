// The kernels of the model, as functions that launch them.
//
// The .cu files are compiled by nvcc for the GPU and by the host compiler for the host
// backend; kernel_tools.h of the backend makes the difference. All take [rows, columns]
// arrays in row-major order and return at once; `stream` orders them. Sums are
// accumulated in fp32.

#ifndef EXAMPLES_GPT_TRAINER_KERNELS_KERNELS_H_
#define EXAMPLES_GPT_TRAINER_KERNELS_KERNELS_H_

#include <cstdint>

#include "backend.h"
#include "examples/gpt_trainer/kernels/element_math.h"
#include "examples/gpt_trainer/kernels/positions.h"

namespace gpt {

// --- layer_norm.cu
// ---------------------------------------------------------------------

// y = normalize(x) * weight + bias per row; mean and 1/deviation are kept for backward.
void LayerNormForward(Element* y, float* mean, float* inverse_deviation,
                      const Element* x, const Element* weight, const Element* bias,
                      int rows, int columns, StreamHandle stream);

struct LayerNormSaved {
  const Element* x;
  const float* mean;
  const float* inverse_deviation;
};

// dx = gradient of the layer norm + residual (may be null); dx may be residual itself.
void LayerNormBackward(Element* dx, const Element* dy, const LayerNormSaved& saved,
                       const Element* weight, const Element* residual, int rows,
                       int columns, StreamHandle stream);

// weight_gradient, bias_gradient += sums over rows.
void LayerNormParameterGradients(float* weight_gradient, float* bias_gradient,
                                 const Element* dy, const LayerNormSaved& saved,
                                 int rows, int columns, StreamHandle stream);

// --- elementwise.cu
// --------------------------------------------------------------------

// x += bias, to each row.
void AddBias(Element* x, const Element* bias, long long rows, int columns,
             StreamHandle stream);
// x += bias in place, y = gelu(x).
void BiasGelu(Element* y, Element* x, const Element* bias, long long rows, int columns,
              StreamHandle stream);
// dx = dy * gelu'(x); dx may be dy.
void GeluBackward(Element* dx, const Element* dy, const Element* x, long long elements,
                  StreamHandle stream);
// y = x + bias + residual.
void BiasResidual(Element* y, const Element* x, const Element* bias,
                  const Element* residual, long long rows, int columns,
                  StreamHandle stream);
// gradient[c] += sum over rows of x[r, c].
void BiasGradient(float* gradient, const Element* x, int rows, int columns,
                  StreamHandle stream);

// --- softmax.cu
// ------------------------------------------------------------------------

// scores: [matrices * sequence, sequence], softmax in place over the columns that a row
// may attend to (its own and earlier positions), zero elsewhere.
void CausalSoftmax(Element* scores, long long rows, int sequence, StreamHandle stream);
// gradient (of the probabilities) becomes the gradient of the scores, in place.
void CausalSoftmaxBackward(Element* gradient, const Element* probabilities,
                           long long rows, int sequence, StreamHandle stream);

// --- routing.cu

// logits[rows, experts] become probabilities; expert[r] is the likeliest one, or
// forced[r], and gate[r] its probability.
void RouteRows(int* expert, float* gate, Element* logits, int rows, int experts,
               const int* forced, StreamHandle stream);
// counts[e] = rows of expert e.
void CountRows(int* counts, const int* expert, int rows, int experts,
               StreamHandle stream);
// slot[r] = place of row r when rows are sorted by expert, keeping their order.
void SortRows(int* slot, const int* expert, int rows, StreamHandle stream);
// sorted[slot[r]] = x[r].
void ScatterRows(Element* sorted, const Element* x, const int* slot, int rows,
                 int columns, StreamHandle stream);
// y[r] = residual[r] + gate[r] * sorted[slot[r]], and backward.
void CombineRows(Element* y, const Element* residual, const Element* sorted,
                 const int* slot, const float* gate, int rows, int columns,
                 StreamHandle stream);
void CombineRowsBackward(Element* dsorted, float* dgate, const Element* dy,
                         const Element* sorted, const int* slot, const float* gate,
                         int rows, int columns, StreamHandle stream);
// probabilities become the gradients of the logits.
void RouteRowsBackward(Element* probabilities, const int* expert, const float* gate,
                       const float* dgate, int rows, int experts, StreamHandle stream);
// x[r] += sorted[slot[r]].
void AddSortedRows(Element* x, const Element* sorted, const int* slot, int rows,
                   int columns, StreamHandle stream);

// --- fused_attention.cu

// Heads of one micro-batch: rows are (position, sequence of the batch), as everywhere.
struct AttentionSize {
  int rows;  // of queries, and as many of keys
  int batch;
  int heads;
  int head_size;
};
// A query, key, value or gradient: element c of a head lies at
// data[row * row_stride + head * head_stride + c].
struct HeadRows {
  Element* data;
  int row_stride;
  int head_stride;
};
struct ConstHeadRows {
  const Element* data;
  int row_stride;
  int head_stride;
};
// Attention of the queries at `at` to the keys and values at `keys_at`, as far as they
// see them. Where `accumulate`, context and log_sums hold the result for other keys and
// become that for both. log_sums[rows, heads]: logarithm of the softmax's denominator.
void FusedAttentionForward(const HeadRows& context, float* log_sums,
                           const ConstHeadRows& query, const ConstHeadRows& key,
                           const ConstHeadRows& value, const AttentionSize& size,
                           const Positions& at, const Positions& keys_at,
                           bool accumulate, StreamHandle stream);
// delta[rows, heads] = dcontext . context, which both backward kernels need.
void FusedAttentionDelta(float* delta, const Element* context, const Element* dcontext,
                         const AttentionSize& size, StreamHandle stream);
struct AttentionSaved {
  ConstHeadRows query, key, value, dcontext;
  const float* log_sums;
  const float* delta;
};
// The query's gradient from these keys, added to dquery where `accumulate`.
void FusedAttentionBackwardQuery(const HeadRows& dquery, const AttentionSaved& saved,
                                 const AttentionSize& size, const Positions& at,
                                 const Positions& keys_at, bool accumulate,
                                 StreamHandle stream);
// The gradients of these keys and values from the queries, added where `accumulate`.
void FusedAttentionBackwardKey(const HeadRows& dkey, const HeadRows& dvalue,
                               const AttentionSaved& saved, const AttentionSize& size,
                               const Positions& at, const Positions& keys_at,
                               bool accumulate, StreamHandle stream);
// packed[rows, columns] = keys and values out of qkv, or back.
void PackKeysAndValues(Element* packed, const Element* qkv, const AttentionSize& size,
                       StreamHandle stream);
void UnpackKeysAndValues(Element* qkv, const Element* packed, const AttentionSize& size,
                         StreamHandle stream);

// --- embedding.cu
// ----------------------------------------------------------------------

// y[r] = table[token[r] - first], zero where the token is in another rank's table.
void EmbeddingForward(Element* y, const Element* table, const int* tokens, int rows,
                      int columns, int first_token, int table_tokens,
                      StreamHandle stream);
// gradient[token[r] - first] += dy[r].
void EmbeddingBackward(float* gradient, const Element* dy, const int* tokens, int rows,
                       int columns, int first_token, int table_tokens,
                       StreamHandle stream);
// x[r] += table[positions.at(first_position + r / batch)].
void AddPositions(Element* x, const Element* table, int rows, int columns, int batch,
                  int first_position, const Positions& positions, StreamHandle stream);
// gradient[positions.at(first_position + r / batch)] += dx[r].
void PositionsBackward(float* gradient, const Element* dx, int rows, int columns,
                       int batch, int first_position, const Positions& positions,
                       StreamHandle stream);

// --- cross_entropy.cu
// ------------------------------------------------------------------ The logits of a
// row are spread over the tensor-parallel ranks; each holds the columns from
// `first_token` on. Between the steps the caller reduces row_max (max) and sums (sum).

// row_max[r] = max over this rank's columns.
void CrossEntropyMax(float* row_max, const Element* logits, int rows, int columns,
                     StreamHandle stream);
// sums[r] = sum of exp(logit - max); sums[rows + r] = logit of the label - max, or 0.
void CrossEntropySums(float* sums, const Element* logits, const float* row_max,
                      const int* labels, int rows, int columns, int first_token,
                      StreamHandle stream);
// *loss += scale * sum over rows of (log(sums[r]) - sums[rows + r]).
void CrossEntropyLoss(float* loss, const float* sums, int rows, float scale,
                      StreamHandle stream);
// logits become their gradient: scale * (probability - [column is the label]).
void CrossEntropyBackward(Element* logits, const float* row_max, const float* sums,
                          const int* labels, int rows, int columns, int first_token,
                          float scale, StreamHandle stream);

// --- optimizer.cu
// ----------------------------------------------------------------------

inline constexpr int kSquareSumBlocks = 256;
// partial[0 .. kSquareSumBlocks) = weight * sums of squares of parts of x. Parts and
// order are fixed: the same input gives the same bits.
void SquareSums(float* partial, const float* x, long long elements, float weight,
                StreamHandle stream);
// *sum = sum of partial[0 .. count).
void SumPartials(float* sum, const float* partial, int count, StreamHandle stream);

struct AdamState {
  float* master;
  float* momentum;
  float* variance;
};
// One step over a shard; the new master weights are also written as Element.
void AdamW(Element* parameters, const AdamState& state, const float* gradients,
           long long elements, const AdamStep& step, StreamHandle stream);

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
void InitializeNormal(Element* weights, const MatrixPart& part, uint64_t seed,
                      uint64_t tensor, float deviation, StreamHandle stream);
void Fill(Element* values, long long elements, float value, StreamHandle stream);
void CopyToMaster(float* master, const Element* parameters, long long elements,
                  StreamHandle stream);
void CopyFromMaster(Element* parameters, const float* master, long long elements,
                    StreamHandle stream);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_KERNELS_KERNELS_H_
