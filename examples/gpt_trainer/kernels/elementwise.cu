// Biases, activation and residuals: one pass over memory each.

#include "examples/gpt_trainer/kernels/kernels.h"
#include "kernel_tools.h"

namespace gpt {

GPT_KERNEL void add_bias(Element* x, const Element* bias, long long rows, int columns) {
  Grid().ForEach(rows * columns, [&](long long i) {
    x[i] = ToElement(ToFloat(x[i]) + ToFloat(bias[i % columns]));
  });
}

GPT_KERNEL void bias_gelu(Element* y, Element* x, const Element* bias, long long rows,
                          int columns) {
  Grid().ForEach(rows * columns, [&](long long i) {
    const Element biased = ToElement(ToFloat(x[i]) + ToFloat(bias[i % columns]));
    x[i] = biased;
    y[i] = ToElement(Gelu(ToFloat(biased)));
  });
}

GPT_KERNEL void gelu_backward(Element* dx, const Element* dy, const Element* x,
                              long long elements) {
  Grid().ForEach(elements, [&](long long i) {
    dx[i] = ToElement(ToFloat(dy[i]) * GeluDerivative(ToFloat(x[i])));
  });
}

GPT_KERNEL void bias_residual(Element* y, const Element* x, const Element* bias,
                              const Element* residual, long long rows, int columns) {
  Grid().ForEach(rows * columns, [&](long long i) {
    y[i] = ToElement(ToFloat(x[i]) + ToFloat(bias[i % columns]) + ToFloat(residual[i]));
  });
}

// A block owns 32 columns and walks down the rows.
GPT_KERNEL void bias_gradient(float* gradient, const Element* x, int rows,
                              int columns) {
  Columns().Sum<float>(
      rows, columns,
      [&](int row, int column) { return ToFloat(x[1LL * row * columns + column]); },
      [&](int column, float sum) { gradient[column] += sum; });
}

void AddBias(Element* x, const Element* bias, long long rows, int columns,
             StreamHandle stream) {
  LaunchElements(stream, rows * columns, add_bias, x, bias, rows, columns);
}

void BiasGelu(Element* y, Element* x, const Element* bias, long long rows, int columns,
              StreamHandle stream) {
  LaunchElements(stream, rows * columns, bias_gelu, y, x, bias, rows, columns);
}

void GeluBackward(Element* dx, const Element* dy, const Element* x, long long elements,
                  StreamHandle stream) {
  LaunchElements(stream, elements, gelu_backward, dx, dy, x, elements);
}

void BiasResidual(Element* y, const Element* x, const Element* bias,
                  const Element* residual, long long rows, int columns,
                  StreamHandle stream) {
  LaunchElements(stream, rows * columns, bias_residual, y, x, bias, residual, rows,
                 columns);
}

void BiasGradient(float* gradient, const Element* x, int rows, int columns,
                  StreamHandle stream) {
  LaunchColumns(stream, columns, bias_gradient, gradient, x, rows, columns);
}

}  // namespace gpt
