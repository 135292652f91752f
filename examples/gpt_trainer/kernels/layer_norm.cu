// Layer normalisation: a block per row, except for the parameter gradients, where a
// block owns 32 columns and walks down the rows.

#include "examples/gpt_trainer/kernels/kernels.h"
#include "kernel_tools.h"

namespace gpt {

GPT_KERNEL void layer_norm_forward(Element* y, float* mean, float* inverse_deviation,
                                   const Element* x, const Element* weight,
                                   const Element* bias, int columns) {
  const Block block;
  const long long start = block.index() * columns;
  const float row_mean =
      block.Sum(columns, [&](int c) { return ToFloat(x[start + c]); }) / columns;
  const float squares = block.Sum(columns, [&](int c) {  // second pass: no cancellation
    const float distance = ToFloat(x[start + c]) - row_mean;
    return distance * distance;
  });
  const float row_inverse = InverseRoot(squares / columns + kLayerNormEpsilon);
  block.ForEach(columns, [&](int c) {
    y[start + c] = ToElement(Normalize(ToFloat(x[start + c]), row_mean, row_inverse,
                                       ToFloat(weight[c]), ToFloat(bias[c])));
  });
  block.Once([&] {
    mean[block.index()] = row_mean;
    inverse_deviation[block.index()] = row_inverse;
  });
}

// With n = normalized x and g = dy * weight: dx = (g - mean(g) - n mean(g n)) /
// deviation.
GPT_KERNEL void layer_norm_backward(Element* dx, const Element* dy, const Element* x,
                                    const float* mean, const float* inverse_deviation,
                                    const Element* weight, const Element* residual,
                                    int columns) {
  const Block block;
  const long long start = block.index() * columns;
  const float row_mean = mean[block.index()];
  const float row_inverse = inverse_deviation[block.index()];
  const auto g = [&](int c) { return ToFloat(dy[start + c]) * ToFloat(weight[c]); };
  const auto n = [&](int c) {
    return (ToFloat(x[start + c]) - row_mean) * row_inverse;
  };
  const float mean_g = block.Sum(columns, g) / columns;
  const float mean_gn =
      block.Sum(columns, [&](int c) { return g(c) * n(c); }) / columns;
  block.ForEach(columns, [&](int c) {
    const float passed_by = residual == nullptr ? 0.0f : ToFloat(residual[start + c]);
    dx[start + c] =
        ToElement((g(c) - mean_g - n(c) * mean_gn) * row_inverse + passed_by);
  });
}

struct NormSums {
  float weight;
  float bias;
  GPT_HOST_DEVICE NormSums& operator+=(const NormSums& other) {
    weight += other.weight;
    bias += other.bias;
    return *this;
  }
};

GPT_KERNEL void layer_norm_parameter_gradients(float* weight_gradient,
                                               float* bias_gradient, const Element* dy,
                                               const Element* x, const float* mean,
                                               const float* inverse_deviation, int rows,
                                               int columns) {
  const Columns block;
  block.Sum<NormSums>(
      rows, columns,
      [&](int row, int column) {
        const long long at = 1LL * row * columns + column;
        const float g = ToFloat(dy[at]);
        return NormSums{g * (ToFloat(x[at]) - mean[row]) * inverse_deviation[row], g};
      },
      [&](int column, const NormSums& sum) {
        weight_gradient[column] += sum.weight;
        bias_gradient[column] += sum.bias;
      });
}

void LayerNormForward(Element* y, float* mean, float* inverse_deviation,
                      const Element* x, const Element* weight, const Element* bias,
                      int rows, int columns, StreamHandle stream) {
  LaunchBlocks(stream, rows, layer_norm_forward, y, mean, inverse_deviation, x, weight,
               bias, columns);
}

void LayerNormBackward(Element* dx, const Element* dy, const LayerNormSaved& saved,
                       const Element* weight, const Element* residual, int rows,
                       int columns, StreamHandle stream) {
  LaunchBlocks(stream, rows, layer_norm_backward, dx, dy, saved.x, saved.mean,
               saved.inverse_deviation, weight, residual, columns);
}

void LayerNormParameterGradients(float* weight_gradient, float* bias_gradient,
                                 const Element* dy, const LayerNormSaved& saved,
                                 int rows, int columns, StreamHandle stream) {
  LaunchColumns(stream, columns, layer_norm_parameter_gradients, weight_gradient,
                bias_gradient, dy, saved.x, saved.mean, saved.inverse_deviation, rows,
                columns);
}

}  // namespace gpt
