// Initial weights: a function of seed, tensor and position in the full matrix, so that
// every split over ranks starts from the same model.

#include "examples/gpt_trainer/kernel_tools.cuh"
#include "examples/gpt_trainer/kernels.h"

namespace gpt {

__global__ void initialize_normal(bf16* weights, long long rows, long long columns,
                                  long long first_row, long long first_column,
                                  long long full_columns, unsigned long long seed,
                                  unsigned long long tensor, float deviation) {
  const long long elements = rows * columns;
  for (long long i = FirstElement(); i < elements; i += ElementStride()) {
    const long long row = first_row + i / columns;
    const long long column = first_column + i % columns;
    weights[i] =
        ToBf16(deviation * RoughlyNormal(seed, tensor, row * full_columns + column));
  }
}

__global__ void fill(bf16* values, long long elements, float value) {
  for (long long i = FirstElement(); i < elements; i += ElementStride()) {
    values[i] = ToBf16(value);
  }
}

__global__ void copy_to_master(float* master, const bf16* parameters,
                               long long elements) {
  for (long long i = FirstElement(); i < elements; i += ElementStride()) {
    master[i] = ToFloat(parameters[i]);
  }
}

void InitializeNormal(bf16* weights, const MatrixPart& part, uint64_t seed,
                      uint64_t tensor, float deviation, cudaStream_t stream) {
  initialize_normal<<<ElementBlocks(part.rows * part.columns), kBlockThreads, 0,
                      stream>>>(weights, part.rows, part.columns, part.first_row,
                                part.first_column, part.full_columns, seed, tensor,
                                deviation);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void Fill(bf16* values, long long elements, float value, cudaStream_t stream) {
  fill<<<ElementBlocks(elements), kBlockThreads, 0, stream>>>(values, elements, value);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void CopyToMaster(float* master, const bf16* parameters, long long elements,
                  cudaStream_t stream) {
  copy_to_master<<<ElementBlocks(elements), kBlockThreads, 0, stream>>>(
      master, parameters, elements);
  GPT_CHECK_CUDA(cudaGetLastError());
}

}  // namespace gpt
