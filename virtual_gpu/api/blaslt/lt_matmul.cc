#include "virtual_gpu/api/blaslt/lt_matmul.h"

#include <vector>

#include "base/guest/program_call.h"
#include "base/guest/refuse.h"
#include "virtual_gpu/api/gemm/blas_status.h"
#include "virtual_gpu/api/gemm/element_types.h"
#include "virtual_gpu/api/gemm/gemm_call.h"
#include "virtual_gpu/api/gpu_access.h"

namespace vrank::gpu {
namespace {

// Bits of cublasLtEpilogue_t.
constexpr uint32_t kRelu = CUBLASLT_EPILOGUE_RELU;
constexpr uint32_t kGelu = CUBLASLT_EPILOGUE_GELU;
constexpr uint32_t kAuxiliary = 128;
constexpr uint32_t kBiasGradient = 16;

cublasStatus_t Refuse(const char* what, std::atomic<bool>* said) {
  RefuseCall(kBlasLtLibrary, what, kCompatTable, said);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

bool IsPlain(const LayoutFields& layout) {
  return (layout.order == CUBLASLT_ORDER_COL || layout.order == CUBLASLT_ORDER_ROW) &&
         layout.batch_mode == 0 && layout.plane_offset == 0;
}

bool IsValid(const LayoutFields& layout) {
  const uint64_t along =
      layout.order == CUBLASLT_ORDER_ROW ? layout.columns : layout.rows;
  return layout.ld >= 0 && static_cast<uint64_t>(layout.ld) >= along &&
         layout.batch >= 1;
}

uint64_t Rows(const LayoutFields& layout, int32_t operation) {
  return operation == CUBLAS_OP_N ? layout.rows : layout.columns;
}
uint64_t Columns(const LayoutFields& layout, int32_t operation) {
  return operation == CUBLAS_OP_N ? layout.columns : layout.rows;
}

void AddBytes(void* address, uint64_t bytes, std::vector<WrittenBlock>* blocks) {
  if (address == nullptr || bytes == 0)
    return;
  WrittenBlock block;
  block.address = address;
  block.row_bytes = bytes;
  blocks->push_back(block);
}

// What the call writes besides D: masks or activations kept for the backward pass, the
// gradient of the bias, and maxima.
void AddEpilogue(const LtProblem& problem, std::vector<WrittenBlock>* blocks) {
  const MatmulFields& operation = *problem.operation;
  const LayoutFields& d = *problem.d;
  const uint32_t epilogue = operation.epilogue;
  if ((epilogue & kAuxiliary) && (epilogue & (kRelu | kGelu)) && operation.auxiliary) {
    // RELU keeps one bit per element, GELU its input.
    const bool bits = (epilogue & kRelu) != 0;
    const auto type = static_cast<cudaDataType_t>(
        operation.auxiliary_type >= 0 ? operation.auxiliary_type : d.type);
    for (int32_t i = 0; i < d.batch; ++i) {
      const uint64_t element = bits ? 1 : ElementBytes(type);
      const uint64_t unit = bits ? 8 : 1;
      const auto skipped = static_cast<uint64_t>(i) *
                           static_cast<uint64_t>(operation.auxiliary_stride) * element /
                           unit;
      WrittenBlock block;
      block.address = static_cast<char*>(operation.auxiliary) + skipped;
      block.row_bytes = (d.rows * element + unit - 1) / unit;
      block.rows = d.columns;
      block.pitch = static_cast<uint64_t>(operation.auxiliary_ld) * element / unit;
      blocks->push_back(block);
    }
  }
  const bool along_rows = (epilogue & (kBiasGradient | CUBLASLT_EPILOGUE_BGRADA)) != 0;
  if (along_rows || (epilogue & CUBLASLT_EPILOGUE_BGRADB)) {
    const auto type = static_cast<cudaDataType_t>(
        operation.bias_type >= 0 ? operation.bias_type : d.type);
    AddBytes(operation.bias, (along_rows ? d.rows : d.columns) * ElementBytes(type),
             blocks);
  }
  AddBytes(operation.amax_d, sizeof(float), blocks);
  AddBytes(operation.auxiliary_amax, sizeof(float), blocks);
}

bool BetaIsOnHost(const MatmulFields& operation) {
  return operation.pointer_mode == CUBLASLT_POINTER_MODE_HOST ||
         operation.pointer_mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST;
}

}  // namespace

cublasStatus_t CheckProblem(const LtProblem& problem) {
  const MatmulFields& operation = *problem.operation;
  for (const LayoutFields* layout : {problem.a, problem.b, problem.c, problem.d}) {
    if (!IsPlain(*layout)) {
      static std::atomic<bool> said;
      return Refuse("cublasLtMatmul with tiled, planar or pointer-array layouts",
                    &said);
    }
    if (!IsValid(*layout) || layout->batch != problem.d->batch)
      return CUBLAS_STATUS_INVALID_VALUE;
    if (!FindElementType(static_cast<cudaDataType_t>(layout->type))) {
      static std::atomic<bool> said;
      return Refuse("cublasLtMatmul with complex, 4-bit or 6-bit elements", &said);
    }
  }
  if (!FindComputeType(static_cast<cublasComputeType_t>(operation.compute_type),
                       false)) {
    static std::atomic<bool> said;
    return Refuse("cublasLtMatmul with an emulated compute type", &said);
  }
  if (operation.d_out_scale != nullptr) {
    static std::atomic<bool> said;
    return Refuse("cublasLtMatmul with block scales of D", &said);
  }
  const uint64_t k = Columns(*problem.a, operation.transa);
  if (Rows(*problem.a, operation.transa) != problem.d->rows ||
      Rows(*problem.b, operation.transb) != k ||
      Columns(*problem.b, operation.transb) != problem.d->columns ||
      problem.c->rows != problem.d->rows || problem.c->columns != problem.d->columns)
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t LaunchMatmul(const LtProblem& problem, const LtOperands& operands,
                            void* stream) {
  ProgramCall program(FindChannel(), "cublasLtMatmul");
  const MatmulFields& operation = *problem.operation;
  const LayoutFields& d = *problem.d;
  if (d.rows == 0 || d.columns == 0)
    return CUBLAS_STATUS_SUCCESS;
  Gpu* gpu = FindGpu();
  const bool row_major = d.order == CUBLASLT_ORDER_ROW;
  const auto d_type = static_cast<cudaDataType_t>(d.type);
  std::vector<WrittenBlock> outputs =
      OutputBlocks(operands.d, static_cast<int64_t>(row_major ? d.columns : d.rows),
                   static_cast<int64_t>(row_major ? d.rows : d.columns), d.ld,
                   d.batch_stride, d.batch, ElementBytes(d_type));
  AddEpilogue(problem, &outputs);

  GemmLaunch launch;
  launch.name = "cublasLtMatmul";
  launch.stream = stream;
  launch.m = d.rows;
  launch.n = d.columns;
  launch.k = Columns(*problem.a, operation.transa);
  launch.batch = static_cast<uint64_t>(d.batch);
  launch.a_type = *FindElementType(static_cast<cudaDataType_t>(problem.a->type));
  launch.b_type = *FindElementType(static_cast<cudaDataType_t>(problem.b->type));
  launch.c_type = *FindElementType(d_type);
  launch.compute_type =
      *FindComputeType(static_cast<cublasComputeType_t>(operation.compute_type), false);
  launch.reads_c =
      operation.pointer_mode != CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO &&
      operands.c != nullptr &&
      ScalesC(operands.beta, static_cast<cudaDataType_t>(operation.scale_type),
              BetaIsOnHost(operation));
  const auto in_memory = [](const LayoutFields& layout, const void* data) {
    const bool by_rows = layout.order == CUBLASLT_ORDER_ROW;
    return MatrixInMemory{
        .data = data,
        .element_bytes = ElementBytes(static_cast<cudaDataType_t>(layout.type)),
        .columns = static_cast<int64_t>(by_rows ? layout.rows : layout.columns),
        .ld = layout.ld,
        .batch = layout.batch,
        .stride = layout.batch_stride};
  };
  const MatrixInMemory matrices[] = {in_memory(*problem.a, operands.a),
                                     in_memory(*problem.b, operands.b),
                                     in_memory(d, operands.d)};
  launch.alignment = AlignmentOf(matrices);
  launch.outputs = outputs.data();
  launch.output_count = outputs.size();
  return ToStatus(gpu->LaunchGemm(launch));
}

float Waves(const LayoutFields& d) {
  constexpr uint64_t kTile = 128;
  const uint64_t tiles = (d.rows + kTile - 1) / kTile *
                         ((d.columns + kTile - 1) / kTile) *
                         static_cast<uint64_t>(d.batch);
  Channel* channel = FindGpu()->channel();
  const uint32_t multiprocessors =
      channel != nullptr ? channel->settings().gpu.multiprocessors : 0;
  return multiprocessors > 0
             ? static_cast<float>(tiles) / static_cast<float>(multiprocessors)
             : 1.0F;
}

}  // namespace vrank::gpu
