// libcublas, called as programs call it, over the virtual GPU on a fake channel.

#include <cublas_v2.h>

#include <cstdint>
#include <limits>

#include "tests/virtual_gpu/testing/library_fixture.h"

namespace vrank::gpu {
namespace {

using protocol::ElementType;

class BlasTest : public LibraryTest {
 protected:
  BlasTest() { EXPECT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS); }
  ~BlasTest() override { EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS); }

  cublasStatus_t Sgemm(int m, int n, int k, int lda, int ldb, int ldc) {
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, lda, b, ldb,
                       &zero, c, ldc);
  }

  cublasHandle_t handle = nullptr;
  float one = 1, zero = 0;
  float* a = NewMemory<float>(1 << 16);
  float* b = NewMemory<float>(1 << 16);
  float* c = NewMemory<float>(1 << 16);
};

TEST_F(BlasTest, WritesOneRecordPerProduct) {
  ASSERT_EQ(cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, 64, 32, 16, &one, a, 16, b,
                        16, &zero, c, 64),
            CUBLAS_STATUS_SUCCESS);
  const protocol::Gemm gemm = LastGemm();
  EXPECT_EQ(gemm.m, 64u);
  EXPECT_EQ(gemm.n, 32u);
  EXPECT_EQ(gemm.k, 16u);
  EXPECT_EQ(gemm.batch, 1u);
  EXPECT_EQ(gemm.a_type, ElementType::kFloat32);
  EXPECT_EQ(gemm.compute_type, ElementType::kFloat32);
  EXPECT_EQ(gemm.reads_c, 0);
  EXPECT_EQ(TheChannel().NameOf(gemm.name), "cublasSgemm_v2");
}

TEST_F(BlasTest, MultipliesVectorsAsMatricesOfOneRow) {
  // Ten rows of three columns, 16 apart; the result's elements lie two apart.
  ASSERT_EQ(cublasSgemv(handle, CUBLAS_OP_N, 10, 3, &one, a, 16, b, 1, &zero, c, 2),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(LastGemm().m, 1u);
  EXPECT_EQ(LastGemm().n, 10u);
  EXPECT_EQ(LastGemm().k, 3u);
  EXPECT_EQ(LastGemm().reads_c, 0);
  EXPECT_EQ(TheChannel().NameOf(LastGemm().name), "cublasSgemv_v2");
  ASSERT_EQ(cublasSgemv(handle, CUBLAS_OP_T, 10, 3, &one, a, 16, b, 1, &one, c, 1),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(LastGemm().n, 3u);
  EXPECT_EQ(LastGemm().k, 10u);
  EXPECT_EQ(LastGemm().reads_c, 1);
  EXPECT_EQ(cublasSgemv(handle, CUBLAS_OP_N, 10, 3, &one, a, 16, b, 0, &zero, c, 1),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSdot(handle, 10, a, 1, b, 1, c), CUBLAS_STATUS_NOT_SUPPORTED);
  cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE);
  ASSERT_EQ(cublasSdot(handle, 10, a, 1, b, 1, c), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(LastGemm().m * LastGemm().n, 1u);
  EXPECT_EQ(LastGemm().k, 10u);
  EXPECT_EQ(LastGemm().reads_c, 0);
}

TEST_F(BlasTest, SaysWhetherCIsRead) {
  const __half half_one(1.0f), minus_zero(-0.0f);
  void* matrices = c;
  const auto run = [&](const void* beta) {
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &half_one, a,
                        CUDA_R_16F, 8, b, CUDA_R_16F, 8, beta, matrices, CUDA_R_16F, 8,
                        CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT);
  };
  ASSERT_EQ(run(&half_one), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(LastGemm().reads_c, 1);
  ASSERT_EQ(run(&minus_zero), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(LastGemm().reads_c, 0);
  ASSERT_EQ(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(run(a), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(LastGemm().reads_c, 1) << "beta on the device is not looked at";
}

TEST_F(BlasTest, SaysWhatItsOperandsLieOn) {
  const __half half_one(1.0f);
  const auto alignment = [&](cublasOperation_t transa, int lda, int ldb, int ldc,
                             int m = 8, int offset = 0) {
    EXPECT_EQ(cublasGemmEx(handle, transa, CUBLAS_OP_N, m, 8, 8, &half_one,
                           static_cast<const char*>(static_cast<void*>(a)) + offset,
                           CUDA_R_16F, lda, b, CUDA_R_16F, ldb, &half_one,
                           static_cast<void*>(c), CUDA_R_16F, ldc, CUBLAS_COMPUTE_16F,
                           CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
    return LastGemm().alignment;
  };
  EXPECT_EQ(alignment(CUBLAS_OP_N, 8, 8, 8), 16);
  EXPECT_EQ(alignment(CUBLAS_OP_N, 9, 8, 8), 2);
  EXPECT_EQ(alignment(CUBLAS_OP_N, 8, 10, 8), 4);
  EXPECT_EQ(alignment(CUBLAS_OP_N, 8, 8, 12), 8);
  EXPECT_EQ(alignment(CUBLAS_OP_N, 8, 8, 8, 8, 4), 4) << "the address counts";
  EXPECT_EQ(alignment(CUBLAS_OP_T, 9, 8, 8, 1), 16) << "a single column has no next";
}

TEST_F(BlasTest, UsesTheMathModeForFloat) {
  ASSERT_EQ(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Sgemm(8, 8, 8, 8, 8, 8), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(LastGemm().compute_type, ElementType::kTfloat32);
}

TEST_F(BlasTest, MarksExactlyCAsWritten) {
  const float known[64] = {};
  Upload(c, known, sizeof known);
  ASSERT_EQ(Sgemm(4, 2, 8, 4, 8, 16), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(IsComputed(c));
  EXPECT_FALSE(IsComputed(c + 4)) << "between two columns";
  EXPECT_TRUE(IsComputed(c + 16 + 3));
  EXPECT_FALSE(IsComputed(c + 32));
}

TEST_F(BlasTest, ReadsPointerArraysOfBatches) {
  void* host[] = {c, c + 100};
  void** device = NewMemory<void*>(2);
  Upload(device, host, sizeof host);
  const float known[256] = {};
  Upload(c, known, sizeof known);
  const auto run = [&](void** array) {
    return cublasGemmBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one,
                               reinterpret_cast<const void* const*>(device), CUDA_R_32F,
                               4, reinterpret_cast<const void* const*>(device),
                               CUDA_R_32F, 4, &zero, array, CUDA_R_32F, 4, 2,
                               CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  };
  ASSERT_EQ(run(device), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(LastGemm().batch, 2u);
  EXPECT_TRUE(IsComputed(c + 100));
  EXPECT_FALSE(IsComputed(c + 50));
  // Written by work that is not carried out.
  const gpu::WrittenBlock written{device, sizeof host, 1, sizeof host};
  gpu::GemmLaunch gemm;
  gemm.outputs = &written;
  gemm.output_count = 1;
  ASSERT_EQ(TheGpu().LaunchGemm(gemm), gpu::Error::kSuccess);
  EXPECT_EQ(run(device), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(BlasTest, CountsBatchesOnce) {
  ASSERT_EQ(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one,
                                      a, 4, 16, b, 4, 16, &zero, c, 4, 16, 5),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Gemms(), 1u);
  EXPECT_EQ(LastGemm().batch, 5u);
}

TEST_F(BlasTest, RejectsInvalidArguments) {
  EXPECT_EQ(Sgemm(-1, 8, 8, 8, 8, 8), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Sgemm(8, 8, 8, 7, 8, 8), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Sgemm(8, 8, 8, 8, 7, 8), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Sgemm(8, 8, 8, 8, 8, 7), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, nullptr, a, 8, b, 8,
                        &zero, c, 8),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSgemm(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, a, 8, b, 8,
                        &zero, c, 8),
            CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(Gemms(), 0u);
}

TEST_F(BlasTest, DoesNothingForEmptyMatrices) {
  EXPECT_EQ(Sgemm(0, 8, 8, 1, 8, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Gemms(), 0u);
}

TEST_F(BlasTest, RefusesTypesWithoutAModel) {
  const uint64_t refused = TheChannel().Lost(LossId::kRefusedCall);
  EXPECT_EQ(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, a, CUDA_C_32F,
                         8, b, CUDA_C_32F, 8, &zero, c, CUDA_C_32F, 8,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(TheChannel().Lost(LossId::kRefusedCall), refused + 1);
}

TEST_F(BlasTest, TakesItsWorkspaceFromTheDevice) {
  DeviceMemoryInfo before, after;
  ASSERT_EQ(TheGpu().GetDeviceMemoryInfo(&before), Error::kSuccess);
  cublasHandle_t other;
  ASSERT_EQ(cublasCreate(&other), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(TheGpu().GetDeviceMemoryInfo(&after), Error::kSuccess);
  EXPECT_EQ(before.free_bytes - after.free_bytes, uint64_t{64} << 20);
  ASSERT_EQ(cublasDestroy(other), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(TheGpu().GetDeviceMemoryInfo(&after), Error::kSuccess);
  EXPECT_EQ(before.free_bytes, after.free_bytes);
}

TEST_F(BlasTest, KeepsSettings) {
  int version = 0;
  EXPECT_EQ(cublasGetVersion(handle, &version), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(version, CUBLAS_VERSION);
  EXPECT_EQ(cublasSetMathMode(handle, static_cast<cublasMath_t>(999)),
            CUBLAS_STATUS_INVALID_VALUE);
  cublasMath_t mode;
  EXPECT_EQ(cublasGetMathMode(handle, &mode), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(mode, CUBLAS_DEFAULT_MATH);
  EXPECT_STREQ(cublasGetStatusName(CUBLAS_STATUS_ALLOC_FAILED),
               "CUBLAS_STATUS_ALLOC_FAILED");
}

}  // namespace
}  // namespace vrank::gpu
