#include "virtual_gpu/api/blaslt/lt_descriptors.h"

#include <cstddef>
#include <utility>

namespace vrank::gpu {
namespace {

#define FIELD(number, type, field) \
  { number, offsetof(type, field), sizeof(type::field) }
#define ELEMENT(number, type, field, index)                                        \
  {                                                                                \
    number, offsetof(type, field) + index * sizeof(std::declval<type>().field[0]), \
        sizeof(std::declval<type>().field[0])                                      \
  }

constexpr Attribute kMatmul[] = {
    FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, MatmulFields, compute_type),
    FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, MatmulFields, scale_type),
    FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, MatmulFields, pointer_mode),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSA, MatmulFields, transa),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSB, MatmulFields, transb),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSC, MatmulFields, transc),
    FIELD(CUBLASLT_MATMUL_DESC_FILL_MODE, MatmulFields, fill_mode),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, MatmulFields, epilogue),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, MatmulFields, bias),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, MatmulFields, bias_stride),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, MatmulFields, auxiliary),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, MatmulFields, auxiliary_ld),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, MatmulFields,
          auxiliary_stride),
    FIELD(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, MatmulFields, alpha_stride),
    FIELD(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, MatmulFields, sm_count_target),
    ELEMENT(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, MatmulFields, scale_pointers, 0),
    ELEMENT(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, MatmulFields, scale_pointers, 1),
    ELEMENT(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, MatmulFields, scale_pointers, 2),
    ELEMENT(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, MatmulFields, scale_pointers, 3),
    FIELD(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, MatmulFields, amax_d),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, MatmulFields, auxiliary_type),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, MatmulFields,
          auxiliary_scale),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, MatmulFields, auxiliary_amax),
    FIELD(CUBLASLT_MATMUL_DESC_FAST_ACCUM, MatmulFields, fast_accumulation),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, MatmulFields, bias_type),
    ELEMENT(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, MatmulFields, scale_modes, 0),
    ELEMENT(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, MatmulFields, scale_modes, 1),
    ELEMENT(CUBLASLT_MATMUL_DESC_C_SCALE_MODE, MatmulFields, scale_modes, 2),
    ELEMENT(CUBLASLT_MATMUL_DESC_D_SCALE_MODE, MatmulFields, scale_modes, 3),
    ELEMENT(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, MatmulFields, scale_modes, 4),
    FIELD(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, MatmulFields, d_out_scale),
    FIELD(CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, MatmulFields, d_out_scale_mode),
    FIELD(CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, MatmulFields, emulation),
};

constexpr Attribute kLayout[] = {
    FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, LayoutFields, type),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, LayoutFields, order),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, LayoutFields, rows),
    FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, LayoutFields, columns),
    FIELD(CUBLASLT_MATRIX_LAYOUT_LD, LayoutFields, ld),
    FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, LayoutFields, batch),
    FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, LayoutFields, batch_stride),
    FIELD(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, LayoutFields, plane_offset),
    FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, LayoutFields, batch_mode),
};

constexpr Attribute kPreference[] = {
    FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, PreferenceFields, search_mode),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, PreferenceFields,
          max_workspace_bytes),
    FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, PreferenceFields,
          reduction_schemes),
    ELEMENT(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, PreferenceFields, alignment, 0),
    ELEMENT(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, PreferenceFields, alignment, 1),
    ELEMENT(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, PreferenceFields, alignment, 2),
    ELEMENT(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, PreferenceFields, alignment, 3),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, PreferenceFields, max_waves),
    FIELD(CUBLASLT_MATMUL_PREF_IMPL_MASK, PreferenceFields, implementations),
};

constexpr Attribute kAlgorithm[] = {
    FIELD(CUBLASLT_ALGO_CONFIG_ID, AlgorithmFields, id),
    FIELD(CUBLASLT_ALGO_CONFIG_TILE_ID, AlgorithmFields, tile),
    FIELD(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, AlgorithmFields, split_k),
    FIELD(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, AlgorithmFields, reduction_scheme),
    FIELD(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, AlgorithmFields, swizzling),
    FIELD(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, AlgorithmFields, custom_option),
    FIELD(CUBLASLT_ALGO_CONFIG_STAGES_ID, AlgorithmFields, stages),
    FIELD(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, AlgorithmFields, inner_shape),
    FIELD(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, AlgorithmFields, cluster_shape),
};

}  // namespace

std::span<const Attribute> MatmulAttributes() {
  return kMatmul;
}
std::span<const Attribute> LayoutAttributes() {
  return kLayout;
}
std::span<const Attribute> PreferenceAttributes() {
  return kPreference;
}
std::span<const Attribute> AlgorithmAttributes() {
  return kAlgorithm;
}

}  // namespace vrank::gpu
