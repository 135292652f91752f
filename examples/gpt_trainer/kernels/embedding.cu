// Word and position embeddings and their gradients: a block per row.

#include "examples/gpt_trainer/kernels/kernels.h"
#include "kernel_tools.h"

namespace gpt {

GPT_KERNEL void embedding_forward(Element* y, const Element* table, const int* tokens,
                                  int columns, int first_token, int table_tokens) {
  const Block block;
  const long long start = block.index() * columns;
  const int token = tokens[block.index()] - first_token;
  const bool here = token >= 0 && token < table_tokens;
  block.ForEach(columns, [&](int c) {
    y[start + c] = here ? table[1LL * token * columns + c] : ToElement(0.0f);
  });
}

// Tokens repeat within a batch, hence the atomics.
GPT_KERNEL void embedding_backward(float* gradient, const Element* dy,
                                   const int* tokens, int columns, int first_token,
                                   int table_tokens) {
  const Block block;
  const long long start = block.index() * columns;
  const int token = tokens[block.index()] - first_token;
  if (token < 0 || token >= table_tokens) {
    return;
  }
  block.ForEach(columns, [&](int c) {
    AddTo(&gradient[1LL * token * columns + c], ToFloat(dy[start + c]));
  });
}

GPT_KERNEL void add_positions(Element* x, const Element* table, int columns, int batch,
                              int first_position, Positions positions) {
  const Block block;
  const long long start = block.index() * columns;
  const Element* position =
      table +
      1LL * positions.at(first_position + static_cast<int>(block.index() / batch)) *
          columns;
  block.ForEach(columns, [&](int c) {
    x[start + c] = ToElement(ToFloat(x[start + c]) + ToFloat(position[c]));
  });
}

// A block per position sums over the sequences of the micro-batch.
GPT_KERNEL void positions_backward(float* gradient, const Element* dx, int columns,
                                   int batch, int first_position, Positions positions) {
  const Block block;
  const long long position = block.index();
  float* out =
      gradient +
      1LL * positions.at(first_position + static_cast<int>(position)) * columns;
  block.ForEach(columns, [&](int c) {
    float sum = 0.0f;
    for (int i = 0; i < batch; ++i) {
      sum += ToFloat(dx[(position * batch + i) * columns + c]);
    }
    out[c] += sum;
  });
}

void EmbeddingForward(Element* y, const Element* table, const int* tokens, int rows,
                      int columns, int first_token, int table_tokens,
                      StreamHandle stream) {
  LaunchBlocks(stream, rows, embedding_forward, y, table, tokens, columns, first_token,
               table_tokens);
}

void EmbeddingBackward(float* gradient, const Element* dy, const int* tokens, int rows,
                       int columns, int first_token, int table_tokens,
                       StreamHandle stream) {
  LaunchBlocks(stream, rows, embedding_backward, gradient, dy, tokens, columns,
               first_token, table_tokens);
}

void AddPositions(Element* x, const Element* table, int rows, int columns, int batch,
                  int first_position, const Positions& positions, StreamHandle stream) {
  LaunchBlocks(stream, rows, add_positions, x, table, columns, batch, first_position,
               positions);
}

void PositionsBackward(float* gradient, const Element* dx, int rows, int columns,
                       int batch, int first_position, const Positions& positions,
                       StreamHandle stream) {
  LaunchBlocks(stream, rows / batch, positions_backward, gradient, dx, columns, batch,
               first_position, positions);
}

}  // namespace gpt
