#include "virtual_gpu/api/dnn/recurrent_kernels.h"

#include <algorithm>
#include <string>

#include "virtual_gpu/api/dnn/data_type.h"
#include "virtual_gpu/api/dnn/structure_kernel.h"

namespace vrank::gpu::dnn {
namespace {

// Steps whose inputs are multiplied at once where a network has several layers.
constexpr int64_t kStepsOfAPart = 8;
constexpr uint32_t kThreads = 256;

protocol::ElementType TypeOf(DataType type) {
  switch (type) {
    case DataType::kHalf:
      return protocol::ElementType::kFloat16;
    case DataType::kBfloat16:
      return protocol::ElementType::kBfloat16;
    case DataType::kDouble:
      return protocol::ElementType::kFloat64;
    case DataType::kFloat:
      break;
  }
  return protocol::ElementType::kFloat32;
}

// Launches in order until one fails.
class Launches {
 public:
  Launches(Gpu* gpu, void* stream, const Recurrent& network, const char* call,
           const RecurrentMemory& memory)
      : gpu_(gpu), stream_(stream), network_(network), call_(call), memory_(memory) {}

  Error error() const { return error_; }

  // Writes the workspace, or `bytes` at `into`.
  void Product(int64_t m, int64_t n, int64_t k, const void* into = nullptr,
               uint64_t bytes = 0) {
    if (error_ != Error::kSuccess || m == 0 || n == 0 || k == 0)
      return;
    const WrittenBlock output{into != nullptr ? into : memory_.workspace,
                              into != nullptr ? bytes : memory_.workspace_bytes};
    GemmLaunch launch;
    launch.name = call_;
    launch.stream = stream_;
    launch.m = static_cast<uint64_t>(m);
    launch.n = static_cast<uint64_t>(n);
    launch.k = static_cast<uint64_t>(k);
    launch.a_type = launch.b_type = launch.c_type = TypeOf(network_.type);
    launch.compute_type = network_.type == DataType::kFloat && network_.tf32
                              ? protocol::ElementType::kTfloat32
                          : network_.type == DataType::kDouble
                              ? protocol::ElementType::kFloat64
                              : protocol::ElementType::kFloat32;
    launch.outputs = &output;
    launch.output_count = 1;
    error_ = gpu_->LaunchGemm(launch);
  }

  // A kernel over `elements`, which moves `per_element` of them each.
  void Kernel(const std::string& name, int64_t elements, int64_t per_element,
              uint64_t exchanges = 0) {
    if (error_ != Error::kSuccess || elements == 0)
      return;
    RecurrentArguments arguments{
        static_cast<uint64_t>(elements * per_element) * ElementBytes(network_.type),
        exchanges,
        {}};
    std::copy(memory_.outputs.begin(), memory_.outputs.end(), arguments.outputs);
    KernelShape shape;
    shape.name = name;
    shape.threads = kThreads;
    shape.grid[0] = static_cast<uint32_t>(
        std::clamp<int64_t>((elements + kThreads - 1) / kThreads, 1, INT32_MAX));
    error_ = LaunchWithStructure(gpu_, stream_, shape, &arguments, sizeof arguments);
  }

 private:
  Gpu* const gpu_;
  void* const stream_;
  const Recurrent& network_;
  const char* const call_;
  const RecurrentMemory& memory_;
  Error error_ = Error::kSuccess;
};

const char* CellName(Cell cell) {
  return cell == Cell::kLstm ? "LSTM" : cell == Cell::kGru ? "GRU" : "RNN";
}

// Waits of a step for memory where one kernel takes all steps: 0.6 us for a plain cell,
// 1.0 for a GRU, 2.4 for an LSTM (hidden size 128 on an H200, 2026-11-29).
uint64_t ExchangesPerStep(Cell cell) {
  return cell == Cell::kLstm ? 11 : cell == Cell::kGru ? 5 : 3;
}

// Rows of the parts that inputs are multiplied in.
std::vector<int64_t> Parts(const Recurrent& network, const Sequences& sequences) {
  if (network.layers == 1 || network.bidirectional)
    return {sequences.rows()};
  std::vector<int64_t> parts;
  for (int64_t step = 0; step < sequences.longest; step += kStepsOfAPart) {
    int64_t rows = 0;
    for (int64_t i = step; i < std::min(step + kStepsOfAPart, sequences.longest); ++i)
      rows += sequences.RowsAt(i);
    parts.push_back(rows);
  }
  return parts;
}

// One kernel for all steps of a layer.
void Persist(Launches* launches, const Recurrent& network, const Sequences& sequences,
             const char* direction) {
  launches->Kernel(
      std::string("RNN_blockPersist_") + direction + "_" + CellName(network.cell),
      sequences.rows() * network.hidden, 2 * network.gates() + 3,
      ExchangesPerStep(network.cell) * static_cast<uint64_t>(sequences.longest));
}

}  // namespace

Error LaunchForward(Gpu* gpu, void* stream, const Recurrent& network,
                    const Sequences& sequences, const RecurrentMemory& memory) {
  Launches launches(gpu, stream, network, "cudnnRNNForward", memory);
  const int64_t hidden = network.hidden, gates = network.gates();
  const std::vector<int64_t> parts = Parts(network, sequences);
  for (int64_t layer = 0; layer < network.layers; ++layer) {
    if (layer > 0 && network.dropout)
      launches.Kernel("cudnn::dropout_apply_mask",
                      sequences.rows() * network.InputsOf(layer), 2);
    for (int64_t direction = 0; direction < network.directions(); ++direction) {
      for (int64_t rows : parts)
        launches.Product(rows, gates * hidden, network.InputsOf(layer));
      if (network.persistent) {
        Persist(&launches, network, sequences, "fp");
        continue;
      }
      for (int64_t step = 0; step < sequences.longest; ++step) {
        const int64_t rows = sequences.RowsAt(step);
        launches.Product(rows, gates * hidden, hidden);
        launches.Kernel("elemWiseRNNcell", rows * hidden, 3 * gates + 3);
      }
    }
  }
  return launches.error();
}

Error LaunchBackwardData(Gpu* gpu, void* stream, const Recurrent& network,
                         const Sequences& sequences, const RecurrentMemory& memory) {
  Launches launches(gpu, stream, network, "cudnnRNNBackwardData_v8", memory);
  const int64_t hidden = network.hidden, gates = network.gates();
  const std::vector<int64_t> parts = Parts(network, sequences);
  const std::string cell = std::string(CellName(network.cell)) + "_elementWise_bp1";
  for (int64_t layer = network.layers; layer-- > 0;) {
    for (int64_t direction = 0; direction < network.directions(); ++direction) {
      if (network.persistent) {
        Persist(&launches, network, sequences, "bp");
      } else {
        for (int64_t step = sequences.longest; step-- > 0;) {
          const int64_t rows = sequences.RowsAt(step);
          launches.Kernel(cell, rows * hidden, 2 * gates + 5);
          launches.Product(rows, hidden, gates * hidden);
        }
      }
      for (int64_t rows : parts)
        launches.Product(rows, network.InputsOf(layer), gates * hidden);
    }
    if (layer > 0 && network.dropout)
      launches.Kernel("cudnn::dropout_apply_mask",
                      sequences.rows() * network.InputsOf(layer), 2);
  }
  return launches.error();
}

Error LaunchBackwardWeights(Gpu* gpu, void* stream, const Recurrent& network,
                            const Sequences& sequences, const RecurrentMemory& memory) {
  Launches launches(gpu, stream, network, "cudnnRNNBackwardWeights_v8", memory);
  const int64_t hidden = network.hidden, gates = network.gates();
  const uint64_t bytes = WeightBytes(network);
  for (int64_t layer = 0; layer < network.layers; ++layer) {
    for (int64_t direction = 0; direction < network.directions(); ++direction) {
      launches.Kernel("GENERIC_elementWise_bp2", sequences.rows() * hidden, gates);
      // Of inputs, of hidden states, and of the initial hidden states.
      launches.Product(gates * hidden, network.InputsOf(layer), sequences.rows(),
                       memory.weight_gradients, bytes);
      launches.Product(gates * hidden, hidden, sequences.rows(),
                       memory.weight_gradients, bytes);
      launches.Product(gates * hidden, hidden, sequences.batch(),
                       memory.weight_gradients, bytes);
    }
  }
  return launches.error();
}

}  // namespace vrank::gpu::dnn
