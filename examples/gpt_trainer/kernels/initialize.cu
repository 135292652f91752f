// Initial and restored weights. Initial ones are a function of seed, tensor and
// position in the full matrix, so that every split over ranks starts from the same
// model.

#include "examples/gpt_trainer/kernels/kernels.h"
#include "kernel_tools.h"

namespace gpt {

GPT_KERNEL void initialize_normal(Element* weights, long long rows, long long columns,
                                  long long first_row, long long first_column,
                                  long long full_columns, unsigned long long seed,
                                  unsigned long long tensor, float deviation) {
  Grid().ForEach(rows * columns, [&](long long i) {
    const long long row = first_row + i / columns;
    const long long column = first_column + i % columns;
    weights[i] =
        ToElement(deviation * RoughlyNormal(seed, tensor, row * full_columns + column));
  });
}

GPT_KERNEL void fill(Element* values, long long elements, float value) {
  Grid().ForEach(elements, [&](long long i) { values[i] = ToElement(value); });
}

GPT_KERNEL void copy_to_master(float* master, const Element* parameters,
                               long long elements) {
  Grid().ForEach(elements, [&](long long i) { master[i] = ToFloat(parameters[i]); });
}

GPT_KERNEL void copy_from_master(Element* parameters, const float* master,
                                 long long elements) {
  Grid().ForEach(elements, [&](long long i) { parameters[i] = ToElement(master[i]); });
}

void InitializeNormal(Element* weights, const MatrixPart& part, uint64_t seed,
                      uint64_t tensor, float deviation, StreamHandle stream) {
  LaunchElements(stream, part.rows * part.columns, initialize_normal, weights,
                 part.rows, part.columns, part.first_row, part.first_column,
                 part.full_columns, seed, tensor, deviation);
}

void Fill(Element* values, long long elements, float value, StreamHandle stream) {
  LaunchElements(stream, elements, fill, values, elements, value);
}

void CopyToMaster(float* master, const Element* parameters, long long elements,
                  StreamHandle stream) {
  LaunchElements(stream, elements, copy_to_master, master, parameters, elements);
}

void CopyFromMaster(Element* parameters, const float* master, long long elements,
                    StreamHandle stream) {
  LaunchElements(stream, elements, copy_from_master, parameters, master, elements);
}

}  // namespace gpt
