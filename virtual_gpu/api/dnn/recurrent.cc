#include "virtual_gpu/api/dnn/recurrent.h"

#include <algorithm>
#include <numeric>

#include "virtual_gpu/api/dnn/data_type.h"

namespace vrank::gpu::dnn {
namespace {

// Elements of all matrices of the layers before `layer`.
int64_t MatrixElements(const Recurrent& network, int64_t layer) {
  int64_t elements = 0;
  for (int64_t i = 0; i < layer; ++i)
    elements += network.directions() * network.gates() * network.hidden *
                (network.InputsOf(i) + network.hidden);
  return elements;
}

// Vectors of biases that each gate has.
int64_t BiasesPerGate(const Recurrent& network) {
  switch (network.bias) {
    case RecurrentBias::kNone:
      return 0;
    case RecurrentBias::kBoth:
      return 2;
    case RecurrentBias::kInput:
    case RecurrentBias::kRecurrent:
      break;
  }
  return 1;
}

uint64_t Bytes(const Recurrent& network, int64_t elements) {
  return static_cast<uint64_t>(elements) * ElementBytes(network.type);
}

// States of one layer and direction that a pass keeps for each sequence.
struct States {
  int64_t forward, backward;
};

States StatesOf(Cell cell) {
  switch (cell) {
    case Cell::kLstm:
      return {10, 11};
    case Cell::kGru:
      return {5, 5};
    case Cell::kRelu:
    case Cell::kTanh:
      break;
  }
  return {3, 5};
}

// Elements of the forward pass beside the weights: states, rows of input and output
// with their padding, the gates' inputs.
int64_t ForwardElements(const Recurrent& n, const Sequences& s) {
  const int64_t padded = s.longest * s.batch(), rows = s.rows();
  const int64_t states =
      (StatesOf(n.cell).forward * n.directions() + (n.bidirectional ? 4 : 0)) *
      n.layers * s.batch() * n.hidden;
  return states + padded * (n.inputs + n.directions() * n.hidden) +
         n.gates() * n.directions() * rows * n.hidden +
         (n.bidirectional ? 4 * rows * n.hidden : 0);
}

int64_t BackwardElements(const Recurrent& n, const Sequences& s) {
  const int64_t padded = s.longest * s.batch(), rows = s.rows();
  const int64_t state = s.batch() * n.hidden, own = StatesOf(n.cell).backward;
  if (n.bidirectional)
    return (2 * own + 4) * n.layers * state + 2 * padded * n.inputs +
           4 * padded * n.hidden + (n.layers > 1 ? 8 : 6) * rows * n.hidden;
  if (n.layers == 1)
    return own * state + 2 * padded * (n.inputs + n.hidden) + 2 * rows * n.hidden;
  // Layers pass steps on by the eight; by the four where there are few (seen with 35).
  constexpr int64_t kManySteps = 64;
  const int64_t together = s.longest >= kManySteps ? 8 : 4;
  return ((own + together) * n.layers + 8) * state +
         2 * padded * (n.inputs + n.hidden) + rows * n.hidden;
}

// What the kernel for small hidden states has in training beside that, for each row.
int64_t SmallElements(Cell cell) {
  return cell == Cell::kLstm ? 16 : cell == Cell::kGru ? 14 : 9;
}

}  // namespace

int64_t Recurrent::gates() const {
  return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
}

int64_t Sequences::rows() const {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

int64_t Sequences::RowsAt(int64_t step) const {
  return std::count_if(lengths.begin(), lengths.end(),
                       [&](int length) { return length > step; });
}

uint64_t WeightBytes(const Recurrent& network) {
  return Bytes(network, MatrixElements(network, network.layers) +
                            network.layers * network.directions() * network.gates() *
                                network.hidden * BiasesPerGate(network));
}

uint64_t ReserveBytes(const Recurrent& network, const Sequences& sequences) {
  constexpr uint64_t kOfItsOwn = 256;
  // Gates and states of each layer, and what layers pass on.
  const int64_t per_layer = network.cell == Cell::kLstm  ? 6
                            : network.cell == Cell::kGru ? 7
                                                         : 2;
  return Bytes(network, (per_layer * network.layers - 1) * network.directions() *
                            sequences.rows() * network.hidden) +
         kOfItsOwn;
}

uint64_t WorkspaceBytes(const Recurrent& network, const Sequences& sequences,
                        bool training) {
  constexpr uint64_t kProducts = 8 << 20;  // of each layer and direction, for cuBLAS
  constexpr uint64_t kAligned = 128;       // lengths of sequences, rows of steps
  const uint64_t lengths =
      sizeof(int) * static_cast<uint64_t>(sequences.longest + sequences.batch());
  int64_t elements = ForwardElements(network, sequences);
  if (training) {
    elements = std::max(elements, BackwardElements(network, sequences));
    if (network.small)
      elements += SmallElements(network.cell) * sequences.rows() * network.hidden;
  }
  return Bytes(network, MatrixElements(network, network.layers) + elements) +
         kProducts * static_cast<uint64_t>(network.layers * network.directions()) +
         (lengths + kAligned - 1) / kAligned * kAligned;
}

WeightPlace PlaceOfMatrix(const Recurrent& network, int64_t pseudo_layer,
                          int64_t linear) {
  const int64_t layer = pseudo_layer / network.directions();
  const int64_t inputs = network.InputsOf(layer);
  const int64_t hidden = network.hidden, gates = network.gates();
  int64_t elements = MatrixElements(network, layer) + pseudo_layer %
                                                          network.directions() * gates *
                                                          hidden * (inputs + hidden);
  if (linear < gates)
    return {Bytes(network, elements + linear * hidden * inputs), hidden, inputs};
  elements += gates * hidden * inputs + (linear - gates) * hidden * hidden;
  return {Bytes(network, elements), hidden, hidden};
}

std::optional<WeightPlace> PlaceOfBias(const Recurrent& network, int64_t pseudo_layer,
                                       int64_t linear) {
  const int64_t gates = network.gates(), per_gate = BiasesPerGate(network);
  const bool of_input = linear < gates;
  if (per_gate == 0 || (network.bias == RecurrentBias::kInput && !of_input) ||
      (network.bias == RecurrentBias::kRecurrent && of_input))
    return std::nullopt;
  const int64_t number = per_gate == 2 ? linear : linear % gates;
  const int64_t elements = MatrixElements(network, network.layers) +
                           (pseudo_layer * gates * per_gate + number) * network.hidden;
  return WeightPlace{Bytes(network, elements), network.hidden, 1};
}

}  // namespace vrank::gpu::dnn
