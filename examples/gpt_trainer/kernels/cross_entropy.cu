// Cross-entropy over a vocabulary that is spread over the tensor-parallel ranks: a
// block per row.

#include "examples/gpt_trainer/kernels/kernels.h"
#include "kernel_tools.h"

namespace gpt {

GPT_KERNEL void cross_entropy_max(float* row_max, const Element* logits, int columns) {
  const Block block;
  const Element* line = logits + block.index() * columns;
  const float largest = block.Largest(columns, [&](int c) { return ToFloat(line[c]); });
  block.Once([&] { row_max[block.index()] = largest; });
}

GPT_KERNEL void cross_entropy_sums(float* sums, const Element* logits,
                                   const float* row_max, const int* labels, int rows,
                                   int columns, int first_token) {
  const Block block;
  const long long row = block.index();
  const Element* line = logits + row * columns;
  const float largest = row_max[row];
  const float sum =
      block.Sum(columns, [&](int c) { return Exp(ToFloat(line[c]) - largest); });
  block.Once([&] {
    const int label = labels[row] - first_token;
    const bool here = label >= 0 && label < columns;
    sums[row] = sum;
    sums[rows + row] = here ? ToFloat(line[label]) - largest : 0.0f;
  });
}

// One block: the sum has a fixed order.
GPT_KERNEL void cross_entropy_loss(float* loss, const float* sums, int rows,
                                   float scale) {
  const Block block;
  const float sum =
      block.Sum(rows, [&](int row) { return logf(sums[row]) - sums[rows + row]; });
  block.Once([&] { *loss += scale * sum; });
}

GPT_KERNEL void cross_entropy_backward(Element* logits, const float* row_max,
                                       const float* sums, const int* labels,
                                       int columns, int first_token, float scale) {
  const Block block;
  const long long row = block.index();
  Element* line = logits + row * columns;
  const float largest = row_max[row];
  const float inverse = 1.0f / sums[row];
  const int label = labels[row] - first_token;
  block.ForEach(columns, [&](int c) {
    const float probability = Exp(ToFloat(line[c]) - largest) * inverse;
    line[c] = ToElement(scale * (probability - (c == label ? 1.0f : 0.0f)));
  });
}

void CrossEntropyMax(float* row_max, const Element* logits, int rows, int columns,
                     StreamHandle stream) {
  LaunchBlocks(stream, rows, cross_entropy_max, row_max, logits, columns);
}

void CrossEntropySums(float* sums, const Element* logits, const float* row_max,
                      const int* labels, int rows, int columns, int first_token,
                      StreamHandle stream) {
  LaunchBlocks(stream, rows, cross_entropy_sums, sums, logits, row_max, labels, rows,
               columns, first_token);
}

void CrossEntropyLoss(float* loss, const float* sums, int rows, float scale,
                      StreamHandle stream) {
  LaunchBlocks(stream, 1, cross_entropy_loss, loss, sums, rows, scale);
}

void CrossEntropyBackward(Element* logits, const float* row_max, const float* sums,
                          const int* labels, int rows, int columns, int first_token,
                          float scale, StreamHandle stream) {
  LaunchBlocks(stream, rows, cross_entropy_backward, logits, row_max, sums, labels,
               columns, first_token, scale);
}

}  // namespace gpt
