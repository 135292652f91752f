// libcuda, chapter "Tensor Map Object Management": what kernels for compute capability
// 9.0 copy by (CUTLASS, Triton). A map is opaque to the program. Nothing reads one here
// but the search for pointers among a kernel's arguments, so it holds the address
// first, and then what it was made of.
//
// Limits and alignments: CUDA 13.0's driver API, cuTensorMapEncodeTiled. Packed types
// of 4 and 6 bits are not modelled.

#include <cstring>

#include "virtual_gpu/api/driver/entry.h"

using vrank::gpu::CallInContext;
using vrank::gpu::Error;
using vrank::gpu::ProcessGpu;

namespace {

constexpr uint32_t kMostDimensions = 5;

struct TensorMap {
  uint64_t address;
  uint32_t type, rank;
  uint64_t dimensions[kMostDimensions];
  uint64_t strides[kMostDimensions - 1];
  uint16_t box[kMostDimensions];
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

// 0: none that is modelled.
uint64_t ElementBytes(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

// Bytes of a row of the box that a swizzle takes. 0: any number.
uint64_t SwizzledBytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      return 0;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    default:
      return 128;
  }
}

bool IsAligned(const void* address, uint64_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

}  // namespace

VRANK_CUDA CUresult cuTensorMapEncodeTiled(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
    const cuuint32_t* boxDim, const cuuint32_t* elementStrides,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill) {
  return CallInContext([&](ProcessGpu& gpu) {
    if (gpu.channel()->settings().gpu.compute_major < 9)
      return Error::kNotSupported;
    const uint64_t element = ElementBytes(tensorDataType);
    const bool interleaves = interleave != CU_TENSOR_MAP_INTERLEAVE_NONE;
    const uint64_t alignment = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
    if (tensorMap == nullptr || !IsAligned(tensorMap, 64) || globalDim == nullptr ||
        boxDim == nullptr || elementStrides == nullptr || element == 0 ||
        tensorRank == 0 || tensorRank > kMostDimensions ||
        (interleaves && tensorRank < 3) ||
        (tensorRank > 1 && globalStrides == nullptr) || globalAddress == nullptr ||
        !IsAligned(globalAddress, alignment) ||
        swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B ||
        l2Promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
        oobFill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA ||
        (alignment == 32 && swizzle != CU_TENSOR_MAP_SWIZZLE_32B))
      return Error::kInvalidValue;
    TensorMap map{};
    map.address = reinterpret_cast<uintptr_t>(globalAddress);
    map.type = tensorDataType;
    map.rank = tensorRank;
    for (uint32_t i = 0; i < tensorRank; ++i) {
      if (globalDim[i] == 0 || globalDim[i] > uint64_t{1} << 32 || boxDim[i] == 0 ||
          boxDim[i] > 256 ||
          ((i > 0 || interleaves) && (elementStrides[i] == 0 || elementStrides[i] > 8)))
        return Error::kInvalidValue;
      map.dimensions[i] = globalDim[i];
      map.box[i] = static_cast<uint16_t>(boxDim[i]);
      if (i + 1 == tensorRank)
        break;
      if (globalStrides[i] % alignment != 0 || globalStrides[i] >= uint64_t{1} << 40)
        return Error::kInvalidValue;
      map.strides[i] = globalStrides[i];
    }
    const uint64_t row = boxDim[0] * element, swizzled = SwizzledBytes(swizzle);
    if (!interleaves && (row % 16 != 0 || (swizzled != 0 && row > swizzled)))
      return Error::kInvalidValue;
    std::memset(tensorMap, 0, sizeof *tensorMap);
    std::memcpy(tensorMap, &map, sizeof map);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuTensorMapReplaceAddress(CUtensorMap* tensorMap,
                                              void* globalAddress) {
  return CallInContext([&](ProcessGpu&) {
    if (tensorMap == nullptr || globalAddress == nullptr || !IsAligned(tensorMap, 64) ||
        !IsAligned(globalAddress, 16))
      return Error::kInvalidValue;
    const auto address = reinterpret_cast<uintptr_t>(globalAddress);
    std::memcpy(tensorMap, &address, sizeof address);
    return Error::kSuccess;
  });
}
