#include "virtual_gpu/api/gemm/gemm_call.h"

#include <algorithm>
#include <cstring>

#include "base/guest/raw_log.h"
#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/api/gemm/blas_status.h"
#include "virtual_gpu/api/gemm/element_types.h"

namespace vrank::gpu {
namespace {

bool IsOperation(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T ||
         operation == CUBLAS_OP_C;
}

WrittenBlock Block(void* data, int64_t rows, int64_t columns, int64_t ld,
                   uint32_t element_bytes) {
  WrittenBlock block;
  block.address = data;
  block.row_bytes = static_cast<uint64_t>(rows) * element_bytes;
  block.rows = static_cast<uint64_t>(columns);
  block.pitch = static_cast<uint64_t>(ld) * element_bytes;
  return block;
}

}  // namespace

cublasStatus_t CheckArguments(const GemmCall& call) {
  if (call.m < 0 || call.n < 0 || call.k < 0 || call.batch < 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!IsOperation(call.transa) || !IsOperation(call.transb))
    return CUBLAS_STATUS_INVALID_VALUE;
  const int64_t rows_a = call.transa == CUBLAS_OP_N ? call.m : call.k;
  const int64_t rows_b = call.transb == CUBLAS_OP_N ? call.k : call.n;
  if (call.a.ld < std::max<int64_t>(1, rows_a) ||
      call.b.ld < std::max<int64_t>(1, rows_b) ||
      call.c.ld < std::max<int64_t>(1, call.m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (call.alpha == nullptr || call.beta == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool empty = call.m == 0 || call.n == 0 || call.batch == 0;
  if (!empty && call.c.data == nullptr && call.c_array == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

bool ScalesC(const void* beta, cudaDataType_t scale_type, bool on_host) {
  if (beta == nullptr)
    return false;
  if (!on_host)
    return true;
  const auto is_nonzero = [beta](auto value, auto mask) {
    std::memcpy(&value, beta, sizeof value);
    return (value & mask) != 0;  // without the sign: -0.0 is zero
  };
  switch (ElementBytes(scale_type)) {
    case 2:
      return is_nonzero(uint16_t{}, uint16_t{0x7fff});
    case 8:
      return is_nonzero(uint64_t{}, ~uint64_t{0} >> 1);
    default:
      return is_nonzero(uint32_t{}, scale_type == CUDA_R_32I ? ~0u : ~0u >> 1);
  }
}

std::vector<WrittenBlock> OutputBlocks(void* data, int64_t rows, int64_t columns,
                                       int64_t ld, int64_t stride, int64_t batch,
                                       uint32_t element_bytes) {
  std::vector<WrittenBlock> blocks;
  if (batch == 1 || stride == 0 || stride == ld * columns) {
    const int64_t matrices = stride == 0 ? 1 : batch;
    blocks.push_back(Block(data, rows, columns * matrices, ld, element_bytes));
    return blocks;
  }
  blocks.reserve(static_cast<size_t>(batch));
  for (int64_t i = 0; i < batch; ++i) {
    char* matrix = static_cast<char*>(data) + i * stride * element_bytes;
    blocks.push_back(Block(matrix, rows, columns, ld, element_bytes));
  }
  return blocks;
}

uint8_t AlignmentOf(std::span<const MatrixInMemory> matrices) {
  constexpr uint64_t kWidestAccess = 16;
  uint64_t all = kWidestAccess;
  for (const MatrixInMemory& matrix : matrices) {
    all |= reinterpret_cast<uintptr_t>(matrix.data);
    if (matrix.columns > 1)
      all |= static_cast<uint64_t>(matrix.ld) * matrix.element_bytes;
    if (matrix.batch > 1)
      all |= static_cast<uint64_t>(matrix.stride) * matrix.element_bytes;
  }
  return static_cast<uint8_t>(all & (~all + 1));
}

bool ReadPointerArray(const void* const* array, int64_t count,
                      std::vector<void*>* pointers) {
  const VirtualGpuTable* table = FindVirtualGpuTable();
  if (table == nullptr)
    return false;
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(void*);
  for (const ContentPiece& piece : table->gpu->Inspect(array, bytes)) {
    if (piece.state != protocol::PayloadState::kKnown)
      return false;
  }
  pointers->resize(static_cast<size_t>(count));
  table->gpu->Read(array, bytes, pointers->data());
  return true;
}

cublasStatus_t Launch(Gpu* gpu, const GemmCall& call, void* stream, bool host_scalars,
                      bool tf32) {
  if (call.m == 0 || call.n == 0 || call.batch == 0)
    return CUBLAS_STATUS_SUCCESS;
  const uint32_t bytes = ElementBytes(call.c.type);
  std::vector<WrittenBlock> outputs;
  if (call.c_array == nullptr) {
    outputs = OutputBlocks(const_cast<void*>(call.c.data), call.m, call.n, call.c.ld,
                           call.c.stride, call.batch, bytes);
  } else {
    std::vector<void*> pointers;
    if (!ReadPointerArray(call.c_array, call.batch, &pointers)) {
      RawLog(
          kBlasLibrary,
          "%s: the array of pointers to C was computed on the device, "
          "so that what the call writes is not known; fill it on the host and copy it",
          call.name);
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    for (void* pointer : pointers)
      outputs.push_back(Block(pointer, call.m, call.n, call.c.ld, bytes));
  }
  GemmLaunch launch;
  launch.name = call.name;
  launch.stream = stream;
  launch.m = static_cast<uint64_t>(call.m);
  launch.n = static_cast<uint64_t>(call.n);
  launch.k = static_cast<uint64_t>(call.k);
  launch.batch = static_cast<uint64_t>(call.batch);
  launch.a_type = *FindElementType(call.a.type);
  launch.b_type = *FindElementType(call.b.type);
  launch.c_type = *FindElementType(call.c.type);
  launch.compute_type = *FindComputeType(call.compute, tf32);
  launch.reads_c = ScalesC(call.beta, ScaleTypeOf(call.compute), host_scalars);
  const auto in_memory = [&](const Matrix& matrix, int64_t columns) {
    return MatrixInMemory{.data = call.c_array == nullptr ? matrix.data : nullptr,
                          .element_bytes = ElementBytes(matrix.type),
                          .columns = columns,
                          .ld = matrix.ld,
                          .batch = call.c_array == nullptr ? call.batch : 1,
                          .stride = matrix.stride};
  };
  const MatrixInMemory matrices[] = {
      in_memory(call.a, call.transa == CUBLAS_OP_N ? call.k : call.m),
      in_memory(call.b, call.transb == CUBLAS_OP_N ? call.n : call.k),
      in_memory(call.c, call.n)};
  launch.alignment = AlignmentOf(matrices);
  launch.outputs = outputs.data();
  launch.output_count = outputs.size();
  return ToStatus(gpu->LaunchGemm(launch));
}

}  // namespace vrank::gpu
