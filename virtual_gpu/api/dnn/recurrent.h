// What a recurrent network of cuDNN is, and how large its memory is.
//
// Sizes are those that cuDNN 9.19 reports on an H200 (2,688 networks of all cells, 1 to
// 3 layers, one and two directions, three types, equal and unequal lengths;
// 2026-11-29): weights and reserve to the byte, workspace to 160 bytes. For small
// hidden states it follows from PyTorch's peaks there (hidden size 128, 128 steps).
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_RECURRENT_H_
#define VRANK_VIRTUAL_GPU_API_DNN_RECURRENT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "virtual_gpu/api/dnn/cudnn_abi.h"

namespace vrank::gpu::dnn {

struct Recurrent {
  Cell cell = Cell::kRelu;
  RecurrentBias bias = RecurrentBias::kBoth;
  DataType type = DataType::kFloat;
  bool bidirectional = false;
  bool tf32 = true;         // products of float32 may be of TF32
  bool persistent = false;  // asked for: one kernel keeps the weights for all steps
  bool small = false;       // persistent, for small hidden states
  bool dropout = false;     // between layers
  int64_t inputs = 0, hidden = 0, layers = 0;

  // Matrices of inputs in a layer, as many of hidden states; 1, 4 or 3.
  int64_t gates() const;
  int64_t directions() const { return bidirectional ? 2 : 1; }
  // What a row of the input of `layer` has.
  int64_t InputsOf(int64_t layer) const {
    return layer == 0 ? inputs : hidden * directions();
  }
};

// Sequences of a batch: rows of x and y, one behind the other by time.
struct Sequences {
  int64_t longest = 0;
  std::vector<int> lengths;  // one per sequence

  int64_t batch() const { return static_cast<int64_t>(lengths.size()); }
  int64_t rows() const;                // of all sequences
  int64_t RowsAt(int64_t step) const;  // sequences longer than `step`
};

uint64_t WeightBytes(const Recurrent& network);
uint64_t ReserveBytes(const Recurrent& network, const Sequences& sequences);
uint64_t WorkspaceBytes(const Recurrent& network, const Sequences& sequences,
                        bool training);

// Where in the weights something lies: bytes from their begin, and its shape.
struct WeightPlace {
  uint64_t offset = 0;
  int64_t rows = 0, columns = 0;
};

// `pseudo_layer`: layer * directions + direction. `linear`: 0 to gates - 1 multiply the
// input, as many behind them the hidden state. Matrices of all layers come first, then
// the biases. nullopt: there is none.
// REQUIRES: 0 <= pseudo_layer < layers * directions, 0 <= linear < 2 * gates
WeightPlace PlaceOfMatrix(const Recurrent& network, int64_t pseudo_layer,
                          int64_t linear);
std::optional<WeightPlace> PlaceOfBias(const Recurrent& network, int64_t pseudo_layer,
                                       int64_t linear);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_RECURRENT_H_
