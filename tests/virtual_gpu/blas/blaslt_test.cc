// libcublasLt, called as programs call it, over the virtual GPU on a fake channel.

#include <cublasLt.h>
#include <cublas_v2.h>

#include "tests/virtual_gpu/testing/library_fixture.h"

namespace vrank::gpu {
namespace {

class BlasLtTest : public LibraryTest {
 protected:
  BlasLtTest() {
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_16BF, 64, 16, 64);
    cublasLtMatrixLayoutCreate(&b, CUDA_R_16BF, 16, 32, 16);
    cublasLtMatrixLayoutCreate(&d, CUDA_R_16BF, 64, 32, 64);
  }
  ~BlasLtTest() override {
    for (cublasLtMatrixLayout_t layout : {a, b, d})
      cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(operation);
    EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
  }

  template <typename T>
  cublasStatus_t Set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value);
  }
  cublasStatus_t Run(const cublasLtMatmulAlgo_t* algorithm = nullptr) {
    return cublasLtMatmul(handle, operation, &one, memory, a, memory, b, &zero, out, d,
                          out, d, algorithm, nullptr, 0, nullptr);
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  float one = 1, zero = 0;
  char* memory = NewMemory<char>(1 << 16);
  char* out = NewMemory<char>(1 << 16);
};

TEST_F(BlasLtTest, WritesOneRecordPerProduct) {
  ASSERT_EQ(Run(), CUBLAS_STATUS_SUCCESS);
  const protocol::Gemm gemm = LastGemm();
  EXPECT_EQ(gemm.m, 64u);
  EXPECT_EQ(gemm.n, 32u);
  EXPECT_EQ(gemm.k, 16u);
  EXPECT_EQ(gemm.a_type, protocol::ElementType::kBfloat16);
  EXPECT_EQ(TheChannel().NameOf(gemm.name), "cublasLtMatmul");
  EXPECT_TRUE(IsComputed(out + 64 * 32 * 2 - 1));
}

TEST_F(BlasLtTest, FindsOneAlgorithmAndAcceptsIt) {
  cublasLtMatmulPreference_t preference;
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t results[3];
  int found = 0;
  ASSERT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, d, d, preference, 3,
                                           results, &found),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(found, 1);
  EXPECT_EQ(results[0].state, CUBLAS_STATUS_SUCCESS);
  EXPECT_GT(results[0].wavesCount, 0);
  EXPECT_EQ(Run(&results[0].algo), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulAlgo_t foreign = {};
  EXPECT_EQ(Run(&foreign), CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulPreferenceDestroy(preference);
}

TEST_F(BlasLtTest, MarksWhatTheEpilogueWrites) {
  const char known[4096] = {};
  Upload(memory, known, sizeof known);
  ASSERT_EQ(Set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_RELU_AUX}),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(memory)),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{128}),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Run(), CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(IsComputed(memory)) << "64 bits of the first column";
  EXPECT_FALSE(IsComputed(memory + 8));
  EXPECT_TRUE(IsComputed(memory + 16 * 31));
}

TEST_F(BlasLtTest, ChecksAttributeSizes) {
  EXPECT_EQ(Set(CUBLASLT_MATMUL_DESC_TRANSA, int64_t{0}), CUBLAS_STATUS_INVALID_VALUE);
  size_t needed = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                           nullptr, 0, &needed),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(needed, sizeof(void*));
  int8_t fast = 1;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM,
                                           &fast, sizeof fast),
            CUBLAS_STATUS_SUCCESS);
}

TEST_F(BlasLtTest, RejectsShapesThatDoNotFit) {
  ASSERT_EQ(Set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{CUBLAS_OP_T}),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Run(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Gemms(), 0u);
}

TEST_F(BlasLtTest, RefusesTiledLayouts) {
  const int32_t order = CUBLASLT_ORDER_COL32;
  ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(d, CUBLASLT_MATRIX_LAYOUT_ORDER, &order,
                                             sizeof order),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Run(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(BlasLtTest, AcceptsAHandleOfCublas) {
  cublasHandle_t blas;
  ASSERT_EQ(cublasCreate(&blas), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(
      cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(blas), operation, &one, memory,
                     a, memory, b, &zero, out, d, out, d, nullptr, nullptr, 0, nullptr),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasDestroy(blas), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace vrank::gpu
