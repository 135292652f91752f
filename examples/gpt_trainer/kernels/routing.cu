// Mixture of experts: which expert a row goes to, and the rows' way there and back.
//
// Rows are sorted by expert: slot[r] is where row r lies among the sorted ones. Order
// within an expert is that of the rows, so that the same input gives the same bits.

#include "examples/gpt_trainer/kernels/kernels.h"
#include "kernel_tools.h"

namespace gpt {

// A block per row; few experts: each thread may look at all of them.
GPT_KERNEL void route_rows(int* expert, float* gate, Element* logits, int experts,
                           const int* forced) {
  const Block block;
  const long long row = block.index();
  Element* line = logits + row * experts;
  const float largest = block.Largest(experts, [&](int e) { return ToFloat(line[e]); });
  const auto power = [&](int e) { return Exp(ToFloat(line[e]) - largest); };
  const float inverse = 1.0f / block.Sum(experts, power);
  block.ForEach(experts, [&](int e) { line[e] = ToElement(power(e) * inverse); });
  block.Barrier();
  block.Once([&] {
    int best = 0;
    for (int e = 1; e < experts; ++e) {
      best = ToFloat(line[e]) > ToFloat(line[best]) ? e : best;
    }
    expert[row] = forced == nullptr ? best : forced[row];
    gate[row] = ToFloat(line[expert[row]]);
  });
}

// A block per expert. Sums of ones are exact in fp32 up to 2^24 rows.
GPT_KERNEL void count_rows(int* counts, const int* expert, int rows) {
  const Block block;
  const int me = static_cast<int>(block.index());
  const float count =
      block.Sum(rows, [&](int r) { return expert[r] == me ? 1.0f : 0.0f; });
  block.Once([&] { counts[me] = static_cast<int>(count); });
}

// A block per row: behind all rows of lower experts and its expert's earlier rows.
GPT_KERNEL void sort_rows(int* slot, const int* expert, int rows) {
  const Block block;
  const int row = static_cast<int>(block.index());
  const int me = expert[row];
  const float before = block.Sum(rows, [&](int r) {
    return expert[r] < me || (expert[r] == me && r < row) ? 1.0f : 0.0f;
  });
  block.Once([&] { slot[row] = static_cast<int>(before); });
}

// sorted[slot[r]] = x[r].
GPT_KERNEL void scatter_rows(Element* sorted, const Element* x, const int* slot,
                             int columns) {
  const Block block;
  Element* out = sorted + 1LL * slot[block.index()] * columns;
  const Element* in = x + block.index() * columns;
  block.ForEach(columns, [&](int c) { out[c] = in[c]; });
}

// y[r] = residual[r] + gate[r] * sorted[slot[r]].
GPT_KERNEL void combine_rows(Element* y, const Element* residual, const Element* sorted,
                             const int* slot, const float* gate, int columns) {
  const Block block;
  const long long start = block.index() * columns;
  const Element* in = sorted + 1LL * slot[block.index()] * columns;
  const float weight = gate[block.index()];
  block.ForEach(columns, [&](int c) {
    y[start + c] = ToElement(ToFloat(residual[start + c]) + weight * ToFloat(in[c]));
  });
}

// dsorted[slot[r]] = gate[r] * dy[r]; dgate[r] = dy[r] . sorted[slot[r]].
GPT_KERNEL void combine_rows_backward(Element* dsorted, float* dgate, const Element* dy,
                                      const Element* sorted, const int* slot,
                                      const float* gate, int columns) {
  const Block block;
  const Element* in = dy + block.index() * columns;
  const long long start = 1LL * slot[block.index()] * columns;
  const float weight = gate[block.index()];
  const float product = block.Sum(
      columns, [&](int c) { return ToFloat(in[c]) * ToFloat(sorted[start + c]); });
  block.ForEach(
      columns, [&](int c) { dsorted[start + c] = ToElement(weight * ToFloat(in[c])); });
  block.Once([&] { dgate[block.index()] = product; });
}

// The probabilities become the gradients of the logits: only the chosen one's
// probability was used.
GPT_KERNEL void route_rows_backward(Element* probabilities, const int* expert,
                                    const float* gate, const float* dgate,
                                    int experts) {
  const Block block;
  const long long row = block.index();
  Element* line = probabilities + row * experts;
  block.ForEach(experts, [&](int e) {
    const float chosen = e == expert[row] ? 1.0f : 0.0f;
    line[e] = ToElement(dgate[row] * gate[row] * (chosen - ToFloat(line[e])));
  });
}

// x[r] += sorted[slot[r]].
GPT_KERNEL void add_sorted_rows(Element* x, const Element* sorted, const int* slot,
                                int columns) {
  const Block block;
  const long long start = block.index() * columns;
  const Element* in = sorted + 1LL * slot[block.index()] * columns;
  block.ForEach(columns, [&](int c) {
    x[start + c] = ToElement(ToFloat(x[start + c]) + ToFloat(in[c]));
  });
}

void RouteRows(int* expert, float* gate, Element* logits, int rows, int experts,
               const int* forced, StreamHandle stream) {
  LaunchBlocks(stream, rows, route_rows, expert, gate, logits, experts, forced);
}

void CountRows(int* counts, const int* expert, int rows, int experts,
               StreamHandle stream) {
  LaunchBlocks(stream, experts, count_rows, counts, expert, rows);
}

void SortRows(int* slot, const int* expert, int rows, StreamHandle stream) {
  LaunchBlocks(stream, rows, sort_rows, slot, expert, rows);
}

void ScatterRows(Element* sorted, const Element* x, const int* slot, int rows,
                 int columns, StreamHandle stream) {
  LaunchBlocks(stream, rows, scatter_rows, sorted, x, slot, columns);
}

void CombineRows(Element* y, const Element* residual, const Element* sorted,
                 const int* slot, const float* gate, int rows, int columns,
                 StreamHandle stream) {
  LaunchBlocks(stream, rows, combine_rows, y, residual, sorted, slot, gate, columns);
}

void CombineRowsBackward(Element* dsorted, float* dgate, const Element* dy,
                         const Element* sorted, const int* slot, const float* gate,
                         int rows, int columns, StreamHandle stream) {
  LaunchBlocks(stream, rows, combine_rows_backward, dsorted, dgate, dy, sorted, slot,
               gate, columns);
}

void RouteRowsBackward(Element* probabilities, const int* expert, const float* gate,
                       const float* dgate, int rows, int experts, StreamHandle stream) {
  LaunchBlocks(stream, rows, route_rows_backward, probabilities, expert, gate, dgate,
               experts);
}

void AddSortedRows(Element* x, const Element* sorted, const int* slot, int rows,
                   int columns, StreamHandle stream) {
  LaunchBlocks(stream, rows, add_sorted_rows, x, sorted, slot, columns);
}

}  // namespace gpt
