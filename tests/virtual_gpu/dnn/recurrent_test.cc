// Recurrent networks by libcudnn: sizes against those that cuDNN reports, and the
// launches of a pass, called as PyTorch calls it.

#include "virtual_gpu/api/dnn/recurrent.h"

#include <random>
#include <string>
#include <vector>

#include "tests/virtual_gpu/dnn/dnn_fixture.h"
#include "virtual_gpu/api/dnn/data_type.h"
#include "virtual_gpu/api/dnn/recurrent_kernels.h"

struct cudnnDropoutStruct;
struct cudnnRNNStruct;
struct cudnnRNNDataStruct;
struct cudnnTensorStruct;
extern "C" {
int cudnnCreateTensorDescriptor(cudnnTensorStruct** tensor);
int cudnnDestroyTensorDescriptor(cudnnTensorStruct* tensor);
int cudnnGetTensorNdDescriptor(const cudnnTensorStruct* tensor, int wanted,
                               vrank::gpu::dnn::DataType* type, int* count,
                               int* dimensions, int* strides);
int cudnnCreateDropoutDescriptor(cudnnDropoutStruct** dropout);
int cudnnDestroyDropoutDescriptor(cudnnDropoutStruct* dropout);
int cudnnDropoutGetStatesSize(cudnnContext* handle, size_t* bytes);
int cudnnSetDropoutDescriptor(cudnnDropoutStruct* dropout, cudnnContext* handle,
                              float probability, void* states, size_t bytes,
                              unsigned long long seed);
int cudnnCreateRNNDescriptor(cudnnRNNStruct** rnn);
int cudnnDestroyRNNDescriptor(cudnnRNNStruct* rnn);
int cudnnSetRNNDescriptor_v8(cudnnRNNStruct* rnn, int algorithm, int cell, int bias,
                             int direction, int input_mode,
                             vrank::gpu::dnn::DataType type,
                             vrank::gpu::dnn::DataType precision, int math, int inputs,
                             int hidden, int projected, int layers,
                             cudnnDropoutStruct* dropout, unsigned flags);
int cudnnCreateRNNDataDescriptor(cudnnRNNDataStruct** data);
int cudnnDestroyRNNDataDescriptor(cudnnRNNDataStruct* data);
int cudnnSetRNNDataDescriptor(cudnnRNNDataStruct* data, vrank::gpu::dnn::DataType type,
                              int layout, int longest, int batch, int columns,
                              const int* lengths, void* fill);
int cudnnGetRNNWeightSpaceSize(cudnnContext* handle, cudnnRNNStruct* rnn,
                               size_t* bytes);
int cudnnGetRNNWeightParams(cudnnContext* handle, cudnnRNNStruct* rnn, int pseudo_layer,
                            size_t weight_bytes, const void* weights, int linear,
                            cudnnTensorStruct* matrix, void** matrix_address,
                            cudnnTensorStruct* bias, void** bias_address);
int cudnnGetRNNTempSpaceSizes(cudnnContext* handle, cudnnRNNStruct* rnn, int mode,
                              cudnnRNNDataStruct* x, size_t* workspace_bytes,
                              size_t* reserve_bytes);
int cudnnRNNForward(cudnnContext* handle, cudnnRNNStruct* rnn, int mode,
                    const int* lengths, cudnnRNNDataStruct* x_data, const void* x,
                    cudnnRNNDataStruct* y_data, void* y, cudnnTensorStruct* h,
                    const void* hx, void* hy, cudnnTensorStruct* c, const void* cx,
                    void* cy, size_t weight_bytes, const void* weights,
                    size_t workspace_bytes, void* workspace, size_t reserve_bytes,
                    void* reserve);
int cudnnRNNBackwardWeights_v8(cudnnContext* handle, cudnnRNNStruct* rnn, int add,
                               const int* lengths, cudnnRNNDataStruct* x_data,
                               const void* x, cudnnTensorStruct* h, const void* hx,
                               cudnnRNNDataStruct* y_data, const void* y,
                               size_t weight_bytes, void* gradients,
                               size_t workspace_bytes, void* workspace,
                               size_t reserve_bytes, void* reserve);
}

namespace vrank::gpu::dnn {
namespace {

Recurrent Network(Cell cell, int64_t hidden, int64_t inputs, int64_t layers,
                  bool bidirectional, DataType type = DataType::kFloat,
                  RecurrentBias bias = RecurrentBias::kRecurrent) {
  Recurrent network;
  network.cell = cell;
  network.bias = bias;
  network.type = type;
  network.bidirectional = bidirectional;
  network.inputs = inputs;
  network.hidden = hidden;
  network.layers = layers;
  return network;
}

// Lengths of the measured batches: all equal, or each one shorter than the one before.
Sequences Batch(int64_t longest, int batch, bool equal) {
  Sequences sequences{longest, {}};
  for (int i = 0; i < batch; ++i)
    sequences.lengths.push_back(equal ? static_cast<int>(longest)
                                      : std::max(1, static_cast<int>(longest) - i));
  return sequences;
}

struct Stated {
  Recurrent network;
  Sequences sequences;
  bool training;
  uint64_t weights, workspace, reserve;
};

// Stated by cuDNN 9.19 on an H200, 2026-11-29; of 2,688.
TEST(RecurrentTest, SizesAreThoseThatCudnnStates) {
  const Stated stated[] = {
      {Network(Cell::kRelu, 128, 128, 1, false), Batch(64, 16, true), false, 131584,
       10117504, 0},
      {Network(Cell::kRelu, 128, 128, 1, false), Batch(64, 16, true), true, 131584,
       11706752, 524544},
      {Network(Cell::kRelu, 128, 128, 1, false), Batch(64, 16, false), true, 131584,
       11583872, 463104},
      {Network(Cell::kRelu, 128, 128, 2, false), Batch(35, 20, false), true, 263168,
       19000736, 783616},
      {Network(Cell::kLstm, 512, 256, 1, false), Batch(64, 16, true), true, 6299648,
       26542464, 10486016},
      {Network(Cell::kLstm, 512, 256, 1, false, DataType::kHalf), Batch(64, 16, true),
       true, 3149824, 17465728, 5243136},
      {Network(Cell::kLstm, 512, 256, 1, true), Batch(64, 16, true), true, 12599296,
       60555648, 20971776},
      {Network(Cell::kLstm, 1000, 300, 3, false), Batch(128, 64, false), true, 84848000,
       259060992, 419968256},
      {Network(Cell::kGru, 1000, 300, 2, false), Batch(35, 20, true), true, 39624000,
       69217632, 36400256},
      {Network(Cell::kGru, 512, 256, 2, false), Batch(128, 64, false), true, 11022336,
       95224576, 164430080},
  };
  for (const Stated& each : stated) {
    EXPECT_EQ(WeightBytes(each.network), each.weights);
    if (each.training) {
      EXPECT_EQ(ReserveBytes(each.network, each.sequences), each.reserve);
    }
    EXPECT_NEAR(static_cast<double>(
                    WorkspaceBytes(each.network, each.sequences, each.training)),
                static_cast<double>(each.workspace), 160);
  }
}

TEST(RecurrentTest, WeightsFillTheirSpaceWithoutOverlap) {
  std::mt19937 random(1);
  const auto any = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int i = 0; i < 200; ++i) {
    const Recurrent network =
        Network(static_cast<Cell>(any(0, 3)), any(1, 40), any(1, 40), any(1, 4),
                any(0, 1) == 1, any(0, 1) == 1 ? DataType::kHalf : DataType::kFloat,
                static_cast<RecurrentBias>(any(0, 3)));
    std::vector<int> covered(WeightBytes(network));
    const auto cover = [&](const WeightPlace& place) {
      const uint64_t bytes = static_cast<uint64_t>(place.rows * place.columns) *
                             ElementBytes(network.type);
      ASSERT_LE(place.offset + bytes, covered.size());
      for (uint64_t at = place.offset; at < place.offset + bytes; ++at)
        ++covered[at];
    };
    for (int64_t layer = 0; layer < network.layers * network.directions(); ++layer) {
      for (int64_t linear = 0; linear < 2 * network.gates(); ++linear) {
        cover(PlaceOfMatrix(network, layer, linear));
        if (const auto bias = PlaceOfBias(network, layer, linear))
          cover(*bias);
      }
    }
    EXPECT_EQ(covered, std::vector<int>(covered.size(), 1));
  }
}

class RecurrentApiTest : public DnnTest {
 protected:
  RecurrentApiTest() {
    EXPECT_EQ(cudnnCreateRNNDescriptor(&rnn), kSuccess);
    EXPECT_EQ(cudnnCreateRNNDataDescriptor(&data), kSuccess);
    EXPECT_EQ(cudnnCreateDropoutDescriptor(&dropout), kSuccess);
  }
  ~RecurrentApiTest() override {
    EXPECT_EQ(cudnnDestroyRNNDescriptor(rnn), kSuccess);
    EXPECT_EQ(cudnnDestroyRNNDataDescriptor(data), kSuccess);
    EXPECT_EQ(cudnnDestroyDropoutDescriptor(dropout), kSuccess);
  }

  int Set(int cell, int hidden, int layers, int projected, int algorithm = 0) {
    return cudnnSetRNNDescriptor_v8(rnn, algorithm, cell, 2, 0, 0, DataType::kFloat,
                                    DataType::kFloat, 0, hidden, hidden, projected,
                                    layers, dropout, 1);
  }
  int SetData(int longest, const std::vector<int>& lengths, int columns) {
    return cudnnSetRNNDataDescriptor(data, DataType::kFloat, 0, longest,
                                     static_cast<int>(lengths.size()), columns,
                                     lengths.data(), nullptr);
  }
  // y, hy, cy are memory 1 to 3, the weights 4, the reserve 5.
  int Forward(size_t less = 0) {
    size_t weights = 0, needed = 0, reserve = 0;
    EXPECT_EQ(cudnnGetRNNWeightSpaceSize(handle, rnn, &weights), kSuccess);
    EXPECT_EQ(cudnnGetRNNTempSpaceSizes(handle, rnn, 1, data, &needed, &reserve),
              kSuccess);
    return cudnnRNNForward(handle, rnn, 1, nullptr, data, memory[0], data, memory[1],
                           nullptr, nullptr, memory[2], nullptr, nullptr, memory[3],
                           weights, memory[4], needed - less, NewMemory<char>(needed),
                           reserve, memory[5]);
  }
  static size_t Products() {
    return TheChannel().records(protocol::RecordKind::kGemm).size();
  }

  cudnnRNNStruct* rnn = nullptr;
  cudnnRNNDataStruct* data = nullptr;
  cudnnDropoutStruct* dropout = nullptr;
};

TEST_F(RecurrentApiTest, AForwardPassGoesStepByStep) {
  ASSERT_EQ(Set(2, 32, 2, 32), kSuccess) << LastError();
  ASSERT_EQ(SetData(12, {12, 12, 5}, 32), kSuccess) << LastError();
  ASSERT_EQ(Forward(), kSuccess) << LastError();
  // Two layers: inputs in two parts, and a product and a cell for each of twelve steps.
  EXPECT_EQ(Products(), 2u * (2 + 12));
  EXPECT_EQ(Kernels().size(), 2u * 12);
  EXPECT_EQ(Names()[0], "elemWiseRNNcell");
  for (size_t written : {1, 2, 3, 5})
    EXPECT_TRUE(IsComputed(memory[written])) << written;
  EXPECT_FALSE(IsComputed(memory[0]));
  EXPECT_FALSE(IsComputed(memory[4]));
}

TEST_F(RecurrentApiTest, OneKernelTakesAllStepsOfEqualLengths) {
  constexpr int kSmall = 3;
  ASSERT_EQ(Set(3, 64, 1, 64, kSmall), kSuccess);
  ASSERT_EQ(SetData(20, {20, 20}, 64), kSuccess);
  ASSERT_EQ(Forward(), kSuccess) << LastError();
  EXPECT_EQ(Products(), 1u);
  ASSERT_EQ(Names(), std::vector<std::string>{"RNN_blockPersist_fp_GRU"});
  EXPECT_EQ(ArgumentsOf<RecurrentArguments>(Kernels()[0]).exchanges, 20u * 5);
  TheChannel().Clear();
  ASSERT_EQ(SetData(20, {20, 19}, 64), kSuccess);
  ASSERT_EQ(Forward(), kSuccess);
  EXPECT_EQ(Products(), 21u);
}

TEST_F(RecurrentApiTest, GradientsOfWeightsAreWritten) {
  ASSERT_EQ(Set(1, 16, 1, 16), kSuccess);
  ASSERT_EQ(SetData(4, {4, 4}, 16), kSuccess);
  size_t weights = 0, needed = 0, reserve = 0;
  ASSERT_EQ(cudnnGetRNNWeightSpaceSize(handle, rnn, &weights), kSuccess);
  ASSERT_EQ(cudnnGetRNNTempSpaceSizes(handle, rnn, 1, data, &needed, &reserve),
            kSuccess);
  ASSERT_EQ(
      cudnnRNNBackwardWeights_v8(handle, rnn, 1, nullptr, data, memory[0], nullptr,
                                 nullptr, data, memory[1], weights, memory[6], needed,
                                 NewMemory<char>(needed), reserve, memory[5]),
      kSuccess)
      << LastError();
  EXPECT_TRUE(IsComputed(memory[6]));
  EXPECT_FALSE(IsComputed(memory[1]));
}

TEST_F(RecurrentApiTest, SaysWhereWeightsAreAndWhatIsAbsent) {
  cudnnTensorStruct* matrix = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&matrix), kSuccess);
  ASSERT_EQ(Set(2, 8, 1, 8), kSuccess);
  size_t weights = 0;
  ASSERT_EQ(cudnnGetRNNWeightSpaceSize(handle, rnn, &weights), kSuccess);
  void *address = nullptr, *bias = nullptr;
  ASSERT_EQ(cudnnGetRNNWeightParams(handle, rnn, 0, weights, memory[4], 5, matrix,
                                    &address, nullptr, &bias),
            kSuccess);
  EXPECT_EQ(static_cast<char*>(address) - static_cast<char*>(memory[4]), 5 * 8 * 8 * 4);
  EXPECT_EQ(static_cast<char*>(bias) - static_cast<char*>(memory[4]),
            8 * 8 * 8 * 4 + 5 * 8 * 4);
  DataType type{};
  int count = 0, dimensions[3] = {}, strides[3] = {};
  ASSERT_EQ(cudnnGetTensorNdDescriptor(matrix, 3, &type, &count, dimensions, strides),
            kSuccess);
  EXPECT_EQ(std::vector<int>(dimensions, dimensions + 3), (std::vector<int>{1, 8, 8}));
  EXPECT_EQ(cudnnGetRNNWeightParams(handle, rnn, 1, weights, memory[4], 0, matrix,
                                    &address, nullptr, nullptr),
            kBadParam)
      << "there is one layer";
  EXPECT_EQ(cudnnDestroyTensorDescriptor(matrix), kSuccess);
}

TEST_F(RecurrentApiTest, RefusesWhatItDoesNotModelAndTooLittleMemory) {
  EXPECT_EQ(Set(2, 32, 1, 16), kNotSupported) << "a projection";
  EXPECT_EQ(Set(4, 32, 1, 32), kBadParam);
  EXPECT_EQ(SetData(4, {5}, 32), kBadParam) << "longer than the longest";
  ASSERT_EQ(Set(2, 32, 1, 32), kSuccess);
  ASSERT_EQ(SetData(4, {4}, 32), kSuccess);
  EXPECT_EQ(Forward(1), kBadParam) << "a byte less than it said";
  ASSERT_EQ(SetData(4, {4}, 31), kSuccess);
  EXPECT_EQ(Forward(), kBadParam) << "rows of another network";
}

TEST_F(RecurrentApiTest, DropoutHasStatesForEachMultiprocessor) {
  size_t bytes = 0;
  ASSERT_EQ(cudnnDropoutGetStatesSize(handle, &bytes), kSuccess);
  EXPECT_EQ(bytes, 132u * 49152);
  void* states = NewMemory<char>(bytes);
  EXPECT_EQ(cudnnSetDropoutDescriptor(dropout, handle, 0.5F, states, bytes - 1, 1),
            kBadParam);
  ASSERT_EQ(cudnnSetDropoutDescriptor(dropout, handle, 0.5F, states, bytes, 1),
            kSuccess);
  EXPECT_TRUE(IsComputed(states));
  TheChannel().Clear();
  ASSERT_EQ(Set(0, 32, 3, 32), kSuccess);
  ASSERT_EQ(SetData(1, {1}, 32), kSuccess);
  ASSERT_EQ(Forward(), kSuccess);
  EXPECT_EQ(Names(),
            (std::vector<std::string>{"elemWiseRNNcell", "cudnn::dropout_apply_mask",
                                      "elemWiseRNNcell", "cudnn::dropout_apply_mask",
                                      "elemWiseRNNcell"}));
}

}  // namespace
}  // namespace vrank::gpu::dnn
