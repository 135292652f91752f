// Batch normalisation by libcudnn, called as PyTorch calls it, over the virtual GPU on
// a fake channel.

#include <string>
#include <vector>

#include "tests/virtual_gpu/dnn/dnn_fixture.h"
#include "virtual_gpu/api/dnn/batch_norm_kernels.h"

struct cudnnTensorStruct;
extern "C" {
int cudnnCreateTensorDescriptor(cudnnTensorStruct** tensor);
int cudnnDestroyTensorDescriptor(cudnnTensorStruct* tensor);
int cudnnSetTensorNdDescriptor(cudnnTensorStruct* tensor,
                               vrank::gpu::dnn::DataType type, int count,
                               const int* dimensions, const int* strides);
int cudnnSetTensorNdDescriptorEx(cudnnTensorStruct* tensor, int format,
                                 vrank::gpu::dnn::DataType type, int count,
                                 const int* dimensions);
int cudnnGetTensorNdDescriptor(const cudnnTensorStruct* tensor, int wanted,
                               vrank::gpu::dnn::DataType* type, int* count,
                               int* dimensions, int* strides);
int cudnnGetTensorSizeInBytes(const cudnnTensorStruct* tensor, size_t* bytes);
int cudnnDeriveBNTensorDescriptor(cudnnTensorStruct* derived,
                                  const cudnnTensorStruct* x, int mode);
int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnContext* handle, int mode, int operations, const cudnnTensorStruct* x,
    const cudnnTensorStruct* z, const cudnnTensorStruct* y,
    const cudnnTensorStruct* scale, const void* activation, size_t* bytes);
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnContext* handle, int mode,
                                                         int operations,
                                                         const void* activation,
                                                         const cudnnTensorStruct* x,
                                                         size_t* bytes);
int cudnnBatchNormalizationForwardTrainingEx(
    cudnnContext* handle, int mode, int operations, const void* alpha, const void* beta,
    const cudnnTensorStruct* x_tensor, const void* x, const cudnnTensorStruct* z_tensor,
    const void* z, const cudnnTensorStruct* y_tensor, void* y,
    const cudnnTensorStruct* scale_tensor, const void* scale, const void* bias,
    double factor, void* running_mean, void* running_variance, double epsilon,
    void* saved_mean, void* saved_variance, void* activation, void* workspace,
    size_t workspace_bytes, void* reserve, size_t reserve_bytes);
int cudnnBatchNormalizationForwardInference(
    cudnnContext* handle, int mode, const void* alpha, const void* beta,
    const cudnnTensorStruct* x_tensor, const void* x, const cudnnTensorStruct* y_tensor,
    void* y, const cudnnTensorStruct* scale_tensor, const void* scale, const void* bias,
    const void* mean, const void* variance, double epsilon);
int cudnnBatchNormalizationBackwardEx(
    cudnnContext* handle, int mode, int operations, const void* alpha, const void* beta,
    const void* alpha_parameters, const void* beta_parameters,
    const cudnnTensorStruct* x_tensor, const void* x, const cudnnTensorStruct* y_tensor,
    const void* y, const cudnnTensorStruct* dy_tensor, const void* dy,
    const cudnnTensorStruct* dz_tensor, void* dz, const cudnnTensorStruct* dx_tensor,
    void* dx, const cudnnTensorStruct* scale_tensor, const void* scale,
    const void* bias, void* d_scale, void* d_bias, double epsilon,
    const void* saved_mean, const void* saved_variance, void* activation,
    void* workspace, size_t workspace_bytes, void* reserve, size_t reserve_bytes);
}

namespace vrank::gpu::dnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSpatial = 1, kPersistent = 2, kNormalizeOnly = 0, kWithActivation = 1;
constexpr int kNchw = 0, kNhwc = 1;

class BatchNormTest : public DnnTest {
 protected:
  BatchNormTest() { EXPECT_EQ(cudnnCreateTensorDescriptor(&x), kSuccess); }
  ~BatchNormTest() override { EXPECT_EQ(cudnnDestroyTensorDescriptor(x), kSuccess); }

  void SetX(int format, std::vector<int> dimensions, DataType type = DataType::kFloat) {
    EXPECT_EQ(
        cudnnSetTensorNdDescriptorEx(
            x, format, type, static_cast<int>(dimensions.size()), dimensions.data()),
        kSuccess);
  }
  // x, y, running mean and variance, saved mean and variance are 0 to 5.
  int Train(int mode, int operations = kNormalizeOnly) {
    const float one = 1, zero = 0;
    return cudnnBatchNormalizationForwardTrainingEx(
        handle, mode, operations, &one, &zero, x, memory[0], nullptr, nullptr, x,
        memory[1], x, memory[6], memory[7], 0.1, memory[2], memory[3], 1e-5, memory[4],
        memory[5], nullptr, nullptr, 0, nullptr, 0);
  }

  cudnnTensorStruct* x = nullptr;
};

TEST_F(BatchNormTest, TrainingWritesItsResultAndStatistics) {
  SetX(kNchw, {32, 64, 56, 56});
  ASSERT_EQ(Train(kSpatial), kSuccess) << LastError();
  ASSERT_EQ(Kernels().size(), 1u);
  EXPECT_THAT(Names()[0], HasSubstr("bn_fw_tr_1C11_kernel_NCHWIffiLi128E"));
  EXPECT_THAT(Kernels()[0].as<protocol::Kernel>().grid, ElementsAre(64, 1, 1));
  const auto arguments = ArgumentsOf<BatchNormArguments>(Kernels()[0]);
  EXPECT_EQ(arguments.elements, 32u * 64 * 56 * 56);
  EXPECT_EQ(arguments.channels, 64u);
  EXPECT_EQ(arguments.element_bytes, 4u);
  for (size_t written : {1, 2, 3, 4, 5})
    EXPECT_TRUE(IsComputed(memory[written])) << written;
  for (size_t read : {0, 6, 7})
    EXPECT_FALSE(IsComputed(memory[read])) << read;
}

TEST_F(BatchNormTest, AShortChannelIsReadOnce) {
  SetX(kNchw, {32, 1024, 14, 14});
  ASSERT_EQ(Train(kSpatial), kSuccess);
  EXPECT_THAT(Names()[0], HasSubstr("bn_fw_tr_1C11_singleread"));
}

TEST_F(BatchNormTest, ChannelsLastHasAnotherKernelAndAWorkspace) {
  SetX(kNhwc, {8, 64, 28, 28}, DataType::kHalf);
  size_t bytes = 0;
  ASSERT_EQ(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
                handle, kPersistent, kNormalizeOnly, x, x, x, x, nullptr, &bytes),
            kSuccess);
  EXPECT_EQ(bytes, 132u * 64 * 2 * sizeof(float));
  ASSERT_EQ(Train(kPersistent), kSuccess);
  EXPECT_THAT(Names()[0], HasSubstr("batchnorm_fwtr_nhwc_semiPersistI6__half"));
}

TEST_F(BatchNormTest, TheReserveIsForActivations) {
  SetX(kNchw, {32, 64, 56, 56});
  size_t bytes = 1;
  ASSERT_EQ(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
                handle, kSpatial, kNormalizeOnly, nullptr, x, &bytes),
            kSuccess);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
                handle, kSpatial, kWithActivation, nullptr, x, &bytes),
            kNotSupported);
  EXPECT_EQ(Train(kSpatial, kWithActivation), kNotSupported);
  EXPECT_TRUE(Kernels().empty());
}

TEST_F(BatchNormTest, InferenceWritesItsResultAlone) {
  SetX(kNchw, {32, 64, 56, 56});
  const float one = 1, zero = 0;
  ASSERT_EQ(cudnnBatchNormalizationForwardInference(
                handle, kSpatial, &one, &zero, x, memory[0], x, memory[1], x, memory[2],
                memory[3], memory[4], memory[5], 1e-5),
            kSuccess);
  EXPECT_THAT(Names()[0], HasSubstr("bn_fw_inf_1C11_kernel_NCHW"));
  EXPECT_TRUE(IsComputed(memory[1]));
  EXPECT_FALSE(IsComputed(memory[4]));
}

TEST_F(BatchNormTest, TheWayBackWritesThreeGradients) {
  SetX(kNchw, {32, 64, 56, 56});
  const float one = 1, zero = 0;
  ASSERT_EQ(cudnnBatchNormalizationBackwardEx(
                handle, kSpatial, kNormalizeOnly, &one, &zero, &one, &zero, x,
                memory[0], nullptr, nullptr, x, memory[1], nullptr, nullptr, x,
                memory[2], x, memory[3], nullptr, memory[4], memory[5], 1e-5, memory[6],
                memory[7], nullptr, nullptr, 0, nullptr, 0),
            kSuccess);
  EXPECT_THAT(Names()[0], HasSubstr("bn_bw_1C11_kernel_newIff6float2Li128E"));
  for (size_t written : {2, 4, 5})
    EXPECT_TRUE(IsComputed(memory[written])) << written;
  EXPECT_FALSE(IsComputed(memory[6]));
}

TEST_F(BatchNormTest, StatisticsHaveOneNumberPerChannel) {
  SetX(kNchw, {32, 64, 56, 48}, DataType::kHalf);
  cudnnTensorStruct* derived = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&derived), kSuccess);
  ASSERT_EQ(cudnnDeriveBNTensorDescriptor(derived, x, kSpatial), kSuccess);
  DataType type{};
  int count = 0, dimensions[4], strides[4];
  ASSERT_EQ(cudnnGetTensorNdDescriptor(derived, 4, &type, &count, dimensions, strides),
            kSuccess);
  EXPECT_EQ(type, DataType::kFloat);
  EXPECT_EQ(count, 4);
  EXPECT_THAT(dimensions, ElementsAre(1, 64, 1, 1));
  EXPECT_EQ(cudnnDestroyTensorDescriptor(derived), kSuccess);
}

TEST_F(BatchNormTest, DescriptorsKeepWhatTheyGet) {
  const int dimensions[] = {2, 3, 4, 5}, strides[] = {100, 1, 15, 3};
  ASSERT_EQ(cudnnSetTensorNdDescriptor(x, DataType::kFloat, 4, dimensions, strides),
            kSuccess);
  size_t bytes = 0;
  ASSERT_EQ(cudnnGetTensorSizeInBytes(x, &bytes), kSuccess);
  EXPECT_EQ(bytes, 4u * (100 + 2 + 3 * 15 + 4 * 3 + 1));
  SetX(kNhwc, {2, 3, 4, 5});
  DataType type{};
  int count = 0, found[4], places[4];
  ASSERT_EQ(cudnnGetTensorNdDescriptor(x, 4, &type, &count, found, places), kSuccess);
  EXPECT_THAT(places, ElementsAre(60, 1, 15, 3));
  const int none[] = {0, 1, 1, 1};
  EXPECT_EQ(cudnnSetTensorNdDescriptor(x, DataType::kFloat, 4, none, strides),
            kBadParam);
  EXPECT_EQ(cudnnSetTensorNdDescriptor(x, DataType::kFloat, 9, dimensions, strides),
            kNotSupported);
}

}  // namespace
}  // namespace vrank::gpu::dnn
