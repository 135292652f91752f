// libcudnn's recurrent networks and the dropout between their layers, by the calls that
// came before the graph API, which PyTorch makes. Projections of hidden states and
// inputs without matrices are not modelled.

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <string>

#include "base/guest/export.h"
#include "base/guest/refuse.h"
#include "virtual_gpu/api/dnn/data_type.h"
#include "virtual_gpu/api/dnn/handle.h"
#include "virtual_gpu/api/dnn/legacy_tensor.h"
#include "virtual_gpu/api/dnn/recurrent.h"
#include "virtual_gpu/api/dnn/recurrent_kernels.h"
#include "virtual_gpu/api/dnn/structure_kernel.h"
#include "virtual_gpu/api/gpu_access.h"

#define CUDNN_ENTRY extern "C" VRANK_EXPORT int

struct cudnnDropoutStruct {
  static constexpr uint64_t kValid = 0x76726475'64726f70;
  uint64_t magic = kValid;
  float probability = 0;
  void* states = nullptr;
  unsigned long long seed = 0;
};

struct cudnnRNNStruct {
  static constexpr uint64_t kValid = 0x76726475'00726e6e;
  uint64_t magic = kValid;
  vrank::gpu::dnn::Recurrent network;  // layers 0: not set yet
};

struct cudnnRNNDataStruct {
  static constexpr uint64_t kValid = 0x76726475'64617461;
  uint64_t magic = kValid;
  vrank::gpu::dnn::DataType type{};
  int columns = 0;
  vrank::gpu::dnn::Sequences sequences;
};

namespace {

using vrank::gpu::Error;
using vrank::gpu::FindGpu;
using namespace vrank::gpu::dnn;  // NOLINT: this file is its API

template <typename Descriptor>
bool IsValid(const Descriptor* descriptor) {
  return descriptor != nullptr && descriptor->magic == Descriptor::kValid;
}

template <typename Descriptor>
int Create(Descriptor** descriptor, const char* call) {
  if (descriptor == nullptr)
    return Fail(kBadParam, std::string(call) + ": no descriptor");
  *descriptor = new (std::nothrow) Descriptor;
  return *descriptor == nullptr
             ? Fail(kHostAllocationFailed, std::string(call) + ": no memory")
             : kSuccess;
}

template <typename Descriptor>
int Destroy(Descriptor* descriptor, const char* call) {
  if (descriptor == nullptr)
    return kSuccess;
  if (!IsValid(descriptor))
    return Fail(kBadParam, std::string(call) + ": no descriptor");
  descriptor->magic = 0;
  delete descriptor;
  return kSuccess;
}

// What every call over sequences has to have.
bool IsReady(const cudnnContext* handle, const cudnnRNNStruct* rnn,
             const cudnnRNNDataStruct* x) {
  return IsHandle(handle) && IsValid(rnn) && rnn->network.layers > 0 && IsValid(x) &&
         x->sequences.batch() > 0;
}

// One kernel for all steps takes sequences of one length.
Recurrent NetworkFor(const cudnnRNNStruct& rnn, const Sequences& sequences) {
  Recurrent network = rnn.network;
  const bool equal = sequences.rows() == sequences.longest * sequences.batch();
  network.persistent &= equal;
  network.small &= equal;
  return network;
}

int ToStatus(Error error, const char* call) {
  return error == Error::kSuccess
             ? kSuccess
             : Fail(kExecutionFailed, std::string(call) + ": a launch failed");
}

// The states of one generator per thread of each multiprocessor: 49,152 bytes for each
// (6,488,064 on an H200 with 132 of them, cuDNN 9.19).
size_t DropoutStateBytes() {
  constexpr size_t kPerMultiprocessor = 49152;
  return kPerMultiprocessor * FindGpu()->channel()->settings().gpu.multiprocessors;
}

int SetDropout(cudnnDropoutStruct* dropout, const cudnnContext* handle,
               float probability, void* states, size_t bytes, unsigned long long seed,
               const char* call) {
  if (!IsValid(dropout) || !IsHandle(handle) || !(probability >= 0 && probability <= 1))
    return Fail(kBadParam,
                std::string(call) + ": no handle, descriptor or probability");
  if (states != nullptr && bytes < DropoutStateBytes())
    return Fail(kBadParam, std::string(call) + ": too little memory for the states");
  dropout->probability = probability;
  dropout->states = states;
  dropout->seed = seed;
  return kSuccess;
}

struct Pass {
  const char* call;
  const cudnnContext* handle;
  const cudnnRNNStruct* rnn;
  const cudnnRNNDataStruct* x;
  bool training;
  RecurrentMemory memory;
  size_t weight_bytes, reserve_bytes;
};

// Checks a pass and launches it with `launch`.
template <typename Launch>
int Run(const Pass& pass, Launch launch) {
  if (!IsReady(pass.handle, pass.rnn, pass.x))
    return Fail(kBadParam, std::string(pass.call) + ": no handle or descriptors");
  const Sequences& sequences = pass.x->sequences;
  const Recurrent network = NetworkFor(*pass.rnn, sequences);
  if (pass.x->type != network.type || pass.x->columns != network.inputs)
    return Fail(kBadParam, std::string(pass.call) + ": x is of another network");
  if (pass.weight_bytes < WeightBytes(network) ||
      pass.memory.workspace_bytes < WorkspaceBytes(network, sequences, pass.training) ||
      (pass.training && pass.reserve_bytes < ReserveBytes(network, sequences)))
    return Fail(kBadParam, std::string(pass.call) +
                               ": less memory than cudnnGetRNNWeightSpaceSize or "
                               "cudnnGetRNNTempSpaceSizes stated");
  return ToStatus(
      launch(FindGpu(), pass.handle->stream, network, sequences, pass.memory),
      pass.call);
}

void Describe(cudnnTensorStruct* tensor, DataType type,
              const std::optional<WeightPlace>& place) {
  tensor->type = type;
  tensor->dimensions.clear();
  tensor->strides.clear();
  if (!place)
    return;
  const int rows = static_cast<int>(place->rows),
            columns = static_cast<int>(place->columns);
  tensor->dimensions = {1, rows, columns};
  tensor->strides = {rows * columns, columns, 1};
}

}  // namespace

CUDNN_ENTRY cudnnCreateDropoutDescriptor(cudnnDropoutStruct** dropout) {
  return Create(dropout, "cudnnCreateDropoutDescriptor");
}

CUDNN_ENTRY cudnnDestroyDropoutDescriptor(cudnnDropoutStruct* dropout) {
  return Destroy(dropout, "cudnnDestroyDropoutDescriptor");
}

CUDNN_ENTRY cudnnDropoutGetStatesSize(cudnnContext* handle, size_t* bytes) {
  if (!IsHandle(handle) || bytes == nullptr)
    return Fail(kBadParam, "cudnnDropoutGetStatesSize: no handle or result");
  *bytes = DropoutStateBytes();
  return kSuccess;
}

CUDNN_ENTRY cudnnSetDropoutDescriptor(cudnnDropoutStruct* dropout, cudnnContext* handle,
                                      float probability, void* states, size_t bytes,
                                      unsigned long long seed) {
  const int status = SetDropout(dropout, handle, probability, states, bytes, seed,
                                "cudnnSetDropoutDescriptor");
  if (status != kSuccess || states == nullptr)
    return status;
  RecurrentArguments arguments{bytes, 0, {states}};
  KernelShape shape;
  shape.name = "cudnn::dropout_init";
  shape.threads = 256;
  shape.grid[0] = FindGpu()->channel()->settings().gpu.multiprocessors;
  return ToStatus(LaunchWithStructure(FindGpu(), handle->stream, shape, &arguments,
                                      sizeof arguments),
                  "cudnnSetDropoutDescriptor");
}

CUDNN_ENTRY cudnnRestoreDropoutDescriptor(cudnnDropoutStruct* dropout,
                                          cudnnContext* handle, float probability,
                                          void* states, size_t bytes,
                                          unsigned long long seed) {
  return SetDropout(dropout, handle, probability, states, bytes, seed,
                    "cudnnRestoreDropoutDescriptor");
}

CUDNN_ENTRY cudnnGetDropoutDescriptor(cudnnDropoutStruct* dropout, cudnnContext* handle,
                                      float* probability, void** states,
                                      unsigned long long* seed) {
  if (!IsValid(dropout) || !IsHandle(handle) || probability == nullptr ||
      states == nullptr || seed == nullptr)
    return Fail(kBadParam, "cudnnGetDropoutDescriptor: no handle or descriptor");
  *probability = dropout->probability;
  *states = dropout->states;
  *seed = dropout->seed;
  return kSuccess;
}

CUDNN_ENTRY cudnnCreateRNNDescriptor(cudnnRNNStruct** rnn) {
  return Create(rnn, "cudnnCreateRNNDescriptor");
}

CUDNN_ENTRY cudnnDestroyRNNDescriptor(cudnnRNNStruct* rnn) {
  return Destroy(rnn, "cudnnDestroyRNNDescriptor");
}

CUDNN_ENTRY cudnnSetRNNDescriptor_v8(cudnnRNNStruct* rnn, int algorithm, int cell,
                                     int bias, int direction, int input_mode,
                                     DataType type, DataType, int math, int inputs,
                                     int hidden, int projected, int layers,
                                     cudnnDropoutStruct* dropout, unsigned) {
  if (!IsValid(rnn) || (dropout != nullptr && !IsValid(dropout)) || inputs <= 0 ||
      hidden <= 0 || layers <= 0 || ElementBytes(type) == 0 ||
      cell < static_cast<int>(Cell::kRelu) || cell > static_cast<int>(Cell::kGru) ||
      bias < static_cast<int>(RecurrentBias::kNone) ||
      bias > static_cast<int>(RecurrentBias::kRecurrent) || algorithm < kStandard ||
      algorithm > kPersistSmall || direction < kOneDirection ||
      direction > kTwoDirections)
    return Fail(kBadParam,
                "cudnnSetRNNDescriptor_v8: no descriptor, or no such network");
  if (input_mode != kLinearInput || projected != hidden) {
    static std::atomic<bool> said;
    vrank::RefuseCall(
        "libcudnn.so.9", "cudnnSetRNNDescriptor_v8 with a projection",
        "with torch.backends.cudnn.enabled = False PyTorch's own recurrent "
        "layers run; docs/cuda_compat.md",
        &said);
    return Fail(kNotSupported,
                "cudnnSetRNNDescriptor_v8: projections of hidden states (proj_size of "
                "PyTorch's LSTM) and inputs without matrices are not modelled "
                "(docs/cuda_compat.md)");
  }
  Recurrent& network = rnn->network;
  network.cell = static_cast<Cell>(cell);
  network.bias = static_cast<RecurrentBias>(bias);
  network.type = type;
  network.bidirectional = direction == kTwoDirections;
  network.tf32 = math != kFmaMath;
  network.persistent = algorithm != kStandard;
  network.small = algorithm == kPersistSmall;
  network.dropout = dropout != nullptr && dropout->probability > 0;
  network.inputs = inputs;
  network.hidden = hidden;
  network.layers = layers;
  return kSuccess;
}

CUDNN_ENTRY cudnnCreateRNNDataDescriptor(cudnnRNNDataStruct** data) {
  return Create(data, "cudnnCreateRNNDataDescriptor");
}

CUDNN_ENTRY cudnnDestroyRNNDataDescriptor(cudnnRNNDataStruct* data) {
  return Destroy(data, "cudnnDestroyRNNDataDescriptor");
}

CUDNN_ENTRY cudnnSetRNNDataDescriptor(cudnnRNNDataStruct* data, DataType type,
                                      int layout, int longest, int batch, int columns,
                                      const int* lengths, void*) {
  if (!IsValid(data) || layout < 0 || layout > kLastDataLayout || longest <= 0 ||
      batch <= 0 || columns <= 0 || lengths == nullptr || ElementBytes(type) == 0 ||
      !std::all_of(lengths, lengths + batch,
                   [&](int length) { return length >= 0 && length <= longest; }))
    return Fail(kBadParam,
                "cudnnSetRNNDataDescriptor: no descriptor, or no such sequences");
  data->type = type;
  data->columns = columns;
  data->sequences = {longest, {lengths, lengths + batch}};
  return kSuccess;
}

CUDNN_ENTRY cudnnGetRNNWeightSpaceSize(cudnnContext* handle, cudnnRNNStruct* rnn,
                                       size_t* bytes) {
  if (!IsHandle(handle) || !IsValid(rnn) || rnn->network.layers == 0 ||
      bytes == nullptr)
    return Fail(kBadParam, "cudnnGetRNNWeightSpaceSize: no handle or descriptor");
  *bytes = WeightBytes(rnn->network);
  return kSuccess;
}

CUDNN_ENTRY cudnnGetRNNWeightParams(cudnnContext* handle, cudnnRNNStruct* rnn,
                                    int pseudo_layer, size_t weight_bytes,
                                    const void* weights, int linear,
                                    cudnnTensorStruct* matrix, void** matrix_address,
                                    cudnnTensorStruct* bias, void** bias_address) {
  if (!IsHandle(handle) || !IsValid(rnn) || pseudo_layer < 0 ||
      pseudo_layer >= rnn->network.layers * rnn->network.directions() || linear < 0 ||
      linear >= 2 * rnn->network.gates() || weight_bytes < WeightBytes(rnn->network))
    return Fail(kBadParam, "cudnnGetRNNWeightParams: no handle, or no such weights");
  const auto give = [&](const std::optional<WeightPlace>& place,
                        cudnnTensorStruct* tensor, void** address) {
    if (tensor != nullptr)
      Describe(tensor, rnn->network.type, place);
    if (address == nullptr)
      return;
    const char* const begin = static_cast<const char*>(weights);
    *address =
        place && begin != nullptr ? const_cast<char*>(begin) + place->offset : nullptr;
  };
  give(PlaceOfMatrix(rnn->network, pseudo_layer, linear), matrix, matrix_address);
  give(PlaceOfBias(rnn->network, pseudo_layer, linear), bias, bias_address);
  return kSuccess;
}

CUDNN_ENTRY cudnnGetRNNTempSpaceSizes(cudnnContext* handle, cudnnRNNStruct* rnn,
                                      int mode, cudnnRNNDataStruct* x,
                                      size_t* workspace_bytes, size_t* reserve_bytes) {
  if (!IsReady(handle, rnn, x))
    return Fail(kBadParam, "cudnnGetRNNTempSpaceSizes: no handle or descriptors");
  const bool training = mode == kForwardForTraining;
  if (workspace_bytes != nullptr)
    *workspace_bytes =
        WorkspaceBytes(NetworkFor(*rnn, x->sequences), x->sequences, training);
  if (reserve_bytes != nullptr)
    *reserve_bytes = training ? ReserveBytes(rnn->network, x->sequences) : 0;
  return kSuccess;
}

CUDNN_ENTRY cudnnRNNForward(cudnnContext* handle, cudnnRNNStruct* rnn, int mode,
                            const int*, cudnnRNNDataStruct* x, const void*,
                            cudnnRNNDataStruct*, void* y, cudnnTensorStruct*,
                            const void*, void* hy, cudnnTensorStruct*, const void*,
                            void* cy, size_t weight_bytes, const void*,
                            size_t workspace_bytes, void* workspace,
                            size_t reserve_bytes, void* reserve) {
  return Run(Pass{"cudnnRNNForward",
                  handle,
                  rnn,
                  x,
                  mode == kForwardForTraining,
                  {workspace, workspace_bytes, {y, hy, cy, reserve}, nullptr},
                  weight_bytes,
                  reserve_bytes},
             LaunchForward);
}

CUDNN_ENTRY cudnnRNNBackwardData_v8(
    cudnnContext* handle, cudnnRNNStruct* rnn, const int*, cudnnRNNDataStruct*,
    const void*, const void*, cudnnRNNDataStruct* x, void* dx, cudnnTensorStruct*,
    const void*, const void*, void* dhx, cudnnTensorStruct*, const void*, const void*,
    void* dcx, size_t weight_bytes, const void*, size_t workspace_bytes,
    void* workspace, size_t reserve_bytes, void* reserve) {
  return Run(Pass{"cudnnRNNBackwardData_v8",
                  handle,
                  rnn,
                  x,
                  true,
                  {workspace, workspace_bytes, {dx, dhx, dcx, reserve}, nullptr},
                  weight_bytes,
                  reserve_bytes},
             LaunchBackwardData);
}

CUDNN_ENTRY cudnnRNNBackwardWeights_v8(cudnnContext* handle, cudnnRNNStruct* rnn, int,
                                       const int*, cudnnRNNDataStruct* x, const void*,
                                       cudnnTensorStruct*, const void*,
                                       cudnnRNNDataStruct*, const void*,
                                       size_t weight_bytes, void* gradients,
                                       size_t workspace_bytes, void* workspace,
                                       size_t reserve_bytes, void*) {
  return Run(Pass{"cudnnRNNBackwardWeights_v8",
                  handle,
                  rnn,
                  x,
                  true,
                  {workspace, workspace_bytes, {}, gradients},
                  weight_bytes,
                  reserve_bytes},
             LaunchBackwardWeights);
}
