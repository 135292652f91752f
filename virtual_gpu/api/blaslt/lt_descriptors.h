// What lies inside the opaque descriptors of cublasLt.
//
// Thread rule: plain values; a descriptor is used by one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_API_BLASLT_LT_DESCRIPTORS_H_
#define VRANK_VIRTUAL_GPU_API_BLASLT_LT_DESCRIPTORS_H_

#include <cublasLt.h>

#include <cstdint>
#include <span>

#include "virtual_gpu/api/blaslt/attribute_table.h"

namespace vrank::gpu {

// Defaults are those of cublasLt.h.
struct MatmulFields {
  int32_t compute_type = CUBLAS_COMPUTE_32F;
  int32_t scale_type = CUDA_R_32F;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  int32_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N, transc = CUBLAS_OP_N;
  int32_t fill_mode = CUBLAS_FILL_MODE_FULL;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int64_t bias_stride = 0;
  void* auxiliary = nullptr;
  int64_t auxiliary_ld = 0;
  int64_t auxiliary_stride = 0;
  int64_t alpha_stride = 0;
  const void* scale_pointers[4] = {};  // A, B, C, D
  void* amax_d = nullptr;
  const void* auxiliary_scale = nullptr;
  void* auxiliary_amax = nullptr;
  void* d_out_scale = nullptr;
  void* emulation = nullptr;
  int32_t sm_count_target = 0;
  int32_t auxiliary_type = -1;
  int32_t bias_type = -1;
  int32_t scale_modes[5] = {};  // A, B, C, D, auxiliary
  int32_t d_out_scale_mode = 0;
  int8_t fast_accumulation = 0;
};

struct LayoutFields {
  uint32_t type = CUDA_R_32F;
  int32_t order = CUBLASLT_ORDER_COL;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  int64_t batch_stride = 0;
  int64_t plane_offset = 0;
  int32_t batch = 1;
  uint32_t batch_mode = 0;  // strided
};

struct PreferenceFields {
  uint64_t max_workspace_bytes = 0;
  uint64_t implementations = ~uint64_t{0};
  uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // A, B, C, D
  float max_waves = 0;
};

// The one algorithm that there is: the shape of the work decides its time.
struct AlgorithmFields {
  static constexpr uint64_t kValid = 0x76726b5f'616c676f;
  uint64_t magic = kValid;
  int32_t id = 0;
  uint32_t tile = CUBLASLT_MATMUL_TILE_128x128;
  int32_t split_k = 1;
  uint32_t reduction_scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  uint32_t swizzling = 0;
  uint32_t custom_option = 0;
  uint32_t stages = CUBLASLT_MATMUL_STAGES_UNDEFINED;
  uint16_t inner_shape = 0;
  uint16_t cluster_shape = 0;
};

static_assert(sizeof(MatmulFields) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(LayoutFields) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(PreferenceFields) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(AlgorithmFields) <= sizeof(cublasLtMatmulAlgo_t));

// nullptr stays nullptr.
inline MatmulFields* Fields(cublasLtMatmulDesc_t descriptor) {
  return reinterpret_cast<MatmulFields*>(descriptor);
}
inline LayoutFields* Fields(cublasLtMatrixLayout_t descriptor) {
  return reinterpret_cast<LayoutFields*>(descriptor);
}
inline PreferenceFields* Fields(cublasLtMatmulPreference_t descriptor) {
  return reinterpret_cast<PreferenceFields*>(descriptor);
}
inline AlgorithmFields* Fields(cublasLtMatmulAlgo_t* algorithm) {
  return reinterpret_cast<AlgorithmFields*>(algorithm);
}
inline const AlgorithmFields* Fields(const cublasLtMatmulAlgo_t* algorithm) {
  return reinterpret_cast<const AlgorithmFields*>(algorithm);
}

std::span<const Attribute> MatmulAttributes();
std::span<const Attribute> LayoutAttributes();
std::span<const Attribute> PreferenceAttributes();
std::span<const Attribute> AlgorithmAttributes();

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_BLASLT_LT_DESCRIPTORS_H_
