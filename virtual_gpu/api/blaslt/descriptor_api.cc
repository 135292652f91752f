// libcublasLt: descriptors of operations, matrices and preferences.

#include <new>

#include "base/guest/export.h"
#include "virtual_gpu/api/blaslt/lt_descriptors.h"

#define CUBLASLT_ENTRY extern "C" VRANK_EXPORT cublasStatus_t

namespace {

using vrank::gpu::AlgorithmAttributes;
using vrank::gpu::Fields;
using vrank::gpu::GetAttribute;
using vrank::gpu::LayoutAttributes;
using vrank::gpu::LayoutFields;
using vrank::gpu::MatmulAttributes;
using vrank::gpu::MatmulFields;
using vrank::gpu::PreferenceAttributes;
using vrank::gpu::PreferenceFields;
using vrank::gpu::SetAttribute;

// The caller's memory of `bytes` becomes a descriptor with these fields.
template <typename T, typename Opaque>
cublasStatus_t Init(Opaque* descriptor, size_t bytes, const T& fields) {
  if (descriptor == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes < sizeof(Opaque))
    return CUBLAS_STATUS_ALLOC_FAILED;
  *descriptor = {};
  new (descriptor) T(fields);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T, typename Opaque>
cublasStatus_t Create(Opaque** descriptor, const T& fields) {
  if (descriptor == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  *descriptor = new (std::nothrow) Opaque;
  if (*descriptor == nullptr)
    return CUBLAS_STATUS_ALLOC_FAILED;
  return Init(*descriptor, sizeof(Opaque), fields);
}

template <typename Opaque>
cublasStatus_t Destroy(Opaque* descriptor) {
  delete descriptor;
  return CUBLAS_STATUS_SUCCESS;
}

MatmulFields MatmulOf(cublasComputeType_t compute, cudaDataType_t scale) {
  MatmulFields fields;
  fields.compute_type = compute;
  fields.scale_type = scale;
  return fields;
}

LayoutFields LayoutOf(cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld) {
  LayoutFields fields;
  fields.type = static_cast<uint32_t>(type);
  fields.rows = rows;
  fields.columns = columns;
  fields.ld = ld;
  return fields;
}

}  // namespace

// --- Operations --------------------------------------------------------------------
CUBLASLT_ENTRY cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t descriptor,
                                               size_t bytes,
                                               cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  return Init(descriptor, bytes, MatmulOf(compute, scale));
}
CUBLASLT_ENTRY cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return Create(descriptor, MatmulOf(compute, scale));
}
CUBLASLT_ENTRY cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  return Destroy(descriptor);
}
CUBLASLT_ENTRY cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* buffer, size_t bytes) {
  return SetAttribute(MatmulAttributes(), Fields(descriptor), attribute, buffer, bytes);
}
CUBLASLT_ENTRY cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              void* buffer, size_t bytes,
                                              size_t* written) {
  return GetAttribute(MatmulAttributes(), Fields(descriptor), attribute, buffer, bytes,
                      written);
}

// --- Matrices ----------------------------------------------------------------------
CUBLASLT_ENTRY cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout,
                                                 size_t bytes, cudaDataType type,
                                                 uint64_t rows, uint64_t columns,
                                                 int64_t ld) {
  return Init(layout, bytes, LayoutOf(type, rows, columns, ld));
}
CUBLASLT_ENTRY cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  return Create(layout, LayoutOf(type, rows, columns, ld));
}
CUBLASLT_ENTRY cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return Destroy(layout);
}
CUBLASLT_ENTRY cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
    const void* buffer, size_t bytes) {
  return SetAttribute(LayoutAttributes(), Fields(layout), attribute, buffer, bytes);
}
CUBLASLT_ENTRY cublasLtMatrixLayoutGetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
    void* buffer, size_t bytes, size_t* written) {
  return GetAttribute(LayoutAttributes(), Fields(layout), attribute, buffer, bytes,
                      written);
}

// --- Preferences -------------------------------------------------------------------
CUBLASLT_ENTRY cublasLtMatmulPreferenceInit_internal(
    cublasLtMatmulPreference_t preference, size_t bytes) {
  return Init(preference, bytes, PreferenceFields{});
}
CUBLASLT_ENTRY cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return Create(preference, PreferenceFields{});
}
CUBLASLT_ENTRY cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return Destroy(preference);
}
CUBLASLT_ENTRY cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void* buffer, size_t bytes) {
  return SetAttribute(PreferenceAttributes(), Fields(preference), attribute, buffer,
                      bytes);
}
CUBLASLT_ENTRY cublasLtMatmulPreferenceGetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, void* buffer, size_t bytes,
    size_t* written) {
  return GetAttribute(PreferenceAttributes(), Fields(preference), attribute, buffer,
                      bytes, written);
}

// --- Algorithms --------------------------------------------------------------------
CUBLASLT_ENTRY cublasLtMatmulAlgoConfigSetAttribute(
    cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute,
    const void* buffer, size_t bytes) {
  return SetAttribute(AlgorithmAttributes(), Fields(algorithm), attribute, buffer,
                      bytes);
}
CUBLASLT_ENTRY cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t* algorithm,
    cublasLtMatmulAlgoConfigAttributes_t attribute, void* buffer, size_t bytes,
    size_t* written) {
  return GetAttribute(AlgorithmAttributes(), Fields(algorithm), attribute, buffer,
                      bytes, written);
}
