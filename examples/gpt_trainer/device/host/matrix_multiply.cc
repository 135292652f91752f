// Matrix products as loops, with sums in fp32.

#include "examples/gpt_trainer/device/matrix_multiply.h"

#include "examples/gpt_trainer/device/host/host_stream.h"
#include "examples/gpt_trainer/device/host/host_world.h"

namespace gpt {
namespace {

// Element (row, column) lies at data[row * row_step + column * column_step].
struct Matrix {
  const float* data;
  long long row_step;
  long long column_step;

  float at(int row, int column) const {
    return data[row * row_step + column * column_step];
  }
};

// c = alpha a b + beta c with c: [m, n], rows `leading` apart.
void Multiply(const BatchedSize& size, float alpha, const Matrix& a, const Matrix& b,
              float beta, float* c, long long leading) {
  for (int row = 0; row < size.m; ++row) {
    for (int column = 0; column < size.n; ++column) {
      float sum = 0.0f;
      for (int i = 0; i < size.k; ++i) {
        sum += a.at(row, i) * b.at(i, column);
      }
      float& out = c[row * leading + column];
      out = alpha * sum + (beta == 0.0f ? 0.0f : beta * out);
    }
  }
}

void CountFlops(const BatchedSize& size) {
  HostRank::Current().counters.matrix_flops +=
      2.0 * size.m * size.n * size.k * size.batch;
}

void Enqueue(StreamHandle stream, const BatchedSize& size, const Matrix& a,
             const Matrix& b, float beta, float* c) {
  CountFlops(size);
  stream->Enqueue([=] { Multiply(size, 1.0f, a, b, beta, c, size.n); });
}

Matrix OperandOf(const BatchedOperand& operand, int i) {
  const float* data = operand.data + i * operand.stride;
  return operand.transposed ? Matrix{data, 1, operand.leading}
                            : Matrix{data, operand.leading, 1};
}

}  // namespace

MatrixMultiply::MatrixMultiply(CachingAllocator& allocator, StreamHandle stream)
    : workspace_(allocator, kWorkspaceBytes), stream_(stream) {}

MatrixMultiply::~MatrixMultiply() = default;

void MatrixMultiply::Forward(Element* y, const Element* x, const Element* w, int rows,
                             int inputs, int outputs) const {
  Enqueue(stream_, {rows, outputs, inputs, 1}, {x, inputs, 1}, {w, 1, inputs}, 0.0f, y);
}

void MatrixMultiply::InputGradient(Element* dx, const Element* dy, const Element* w,
                                   int rows, int inputs, int outputs) const {
  Enqueue(stream_, {rows, inputs, outputs, 1}, {dy, outputs, 1}, {w, inputs, 1}, 0.0f,
          dx);
}

void MatrixMultiply::WeightGradient(float* dw, const Element* dy, const Element* x,
                                    int rows, int inputs, int outputs) const {
  Enqueue(stream_, {outputs, inputs, rows, 1}, {dy, 1, outputs}, {x, inputs, 1}, 1.0f,
          dw);
}

void MatrixMultiply::Batched(const BatchedSize& size, float alpha,
                             const BatchedOperand& a, const BatchedOperand& b,
                             const BatchedResult& c) const {
  CountFlops(size);
  stream_->Enqueue([=] {
    for (int i = 0; i < size.batch; ++i) {
      Multiply(size, alpha, OperandOf(a, i), OperandOf(b, i), 0.0f,
               c.data + i * c.stride, c.leading);
    }
  });
}

}  // namespace gpt
