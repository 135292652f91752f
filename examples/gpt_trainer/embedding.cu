// Word and position embeddings and their gradients: a block per row.

#include "examples/gpt_trainer/kernel_tools.cuh"
#include "examples/gpt_trainer/kernels.h"

namespace gpt {

__global__ void embedding_forward(bf16* y, const bf16* table, const int* tokens,
                                  int columns, int first_token, int table_tokens) {
  const long long row = blockIdx.x;
  const int token = tokens[row] - first_token;
  const bool here = token >= 0 && token < table_tokens;
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    y[row * columns + c] = here ? table[1LL * token * columns + c] : ToBf16(0.0f);
  }
}

// Tokens repeat within a batch, hence the atomics.
__global__ void embedding_backward(float* gradient, const bf16* dy, const int* tokens,
                                   int columns, int first_token, int table_tokens) {
  const long long row = blockIdx.x;
  const int token = tokens[row] - first_token;
  if (token < 0 || token >= table_tokens) {
    return;
  }
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    atomicAdd(&gradient[1LL * token * columns + c], ToFloat(dy[row * columns + c]));
  }
}

__global__ void add_positions(bf16* x, const bf16* table, int columns, int batch,
                              int first_position) {
  const long long row = blockIdx.x;
  const bf16* position = table + (first_position + row / batch) * columns;
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    x[row * columns + c] = ToBf16(ToFloat(x[row * columns + c]) + ToFloat(position[c]));
  }
}

// A block per position sums over the sequences of the micro-batch.
__global__ void positions_backward(float* gradient, const bf16* dx, int columns,
                                   int batch, int first_position) {
  const long long position = blockIdx.x;
  float* out = gradient + (first_position + position) * columns;
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    float sum = 0.0f;
    for (int i = 0; i < batch; ++i) {
      sum += ToFloat(dx[(position * batch + i) * columns + c]);
    }
    out[c] += sum;
  }
}

void EmbeddingForward(bf16* y, const bf16* table, const int* tokens, int rows,
                      int columns, int first_token, int table_tokens,
                      cudaStream_t stream) {
  embedding_forward<<<rows, kBlockThreads, 0, stream>>>(y, table, tokens, columns,
                                                        first_token, table_tokens);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void EmbeddingBackward(float* gradient, const bf16* dy, const int* tokens, int rows,
                       int columns, int first_token, int table_tokens,
                       cudaStream_t stream) {
  embedding_backward<<<rows, kBlockThreads, 0, stream>>>(gradient, dy, tokens, columns,
                                                         first_token, table_tokens);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void AddPositions(bf16* x, const bf16* table, int rows, int columns, int batch,
                  int first_position, cudaStream_t stream) {
  add_positions<<<rows, kBlockThreads, 0, stream>>>(x, table, columns, batch,
                                                    first_position);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void PositionsBackward(float* gradient, const bf16* dx, int rows, int columns,
                       int batch, int first_position, cudaStream_t stream) {
  positions_backward<<<rows / batch, kBlockThreads, 0, stream>>>(gradient, dx, columns,
                                                                 batch, first_position);
  GPT_CHECK_CUDA(cudaGetLastError());
}

}  // namespace gpt
