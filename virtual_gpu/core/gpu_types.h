// What callers of the virtual GPU hand over: launches, copies, memory and its
// attributes.
//
// Streams and events travel as the opaque handles that programs hold (cudaStream_t,
// CUevent, ...). Flags are CUDA's own bits; this folder knows no CUDA header, so the
// values that it needs are repeated here.
//
// Thread rule: plain values.

#ifndef VRANK_VIRTUAL_GPU_CORE_GPU_TYPES_H_
#define VRANK_VIRTUAL_GPU_CORE_GPU_TYPES_H_

#include <cstddef>
#include <cstdint>

#include "base/guest/protocol.h"

namespace vrank::gpu {

// cudaStreamLegacy and cudaStreamPerThread; a null handle is the legacy stream. Entry
// points compiled for per-thread default streams (_ptsz, _ptds) replace null
// themselves.
inline void* const kLegacyStream = reinterpret_cast<void*>(uintptr_t{1});
inline void* const kPerThreadStream = reinterpret_cast<void*>(uintptr_t{2});

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
// Stream priorities go from 0 (lowest) to this (highest), as on GPUs since Pascal.
inline constexpr int kHighestPriority = -5;

struct StreamInfo {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;  // unique for the life of the process
};

struct KernelCode;  // virtual_gpu/core/kernel_code.h

// A block of memory that a launch writes, where the caller knows it exactly: `rows`
// rows of `row_bytes`, `pitch` apart.
struct WrittenBlock {
  const void* address = nullptr;
  uint64_t row_bytes = 0;
  uint64_t rows = 1;
  uint64_t pitch = 0;
};

struct KernelLaunch {
  KernelCode* kernel = nullptr;
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {};  // zeros: not given
  bool cooperative = false;  // all of its blocks run at the same time
  uint64_t shared_bytes = 0;
  void* stream = nullptr;
  // One pointer per parameter, as cudaLaunchKernel takes them; or, where `packed` is
  // not null, one buffer that is already laid out (CU_LAUNCH_PARAM_BUFFER_POINTER).
  void** arguments = nullptr;
  const void* packed = nullptr;
  size_t packed_bytes = 0;
};

struct GemmLaunch {
  const char* name = "";  // the API function: "cublasGemmEx"
  void* stream = nullptr;
  uint64_t m = 0, n = 0, k = 0, batch = 1;
  protocol::ElementType a_type{}, b_type{}, c_type{}, compute_type{};
  bool reads_c = false;
  uint8_t alignment = 0;  // protocol::Gemm::alignment
  // C, or one block per matrix of a batch.
  const WrittenBlock* outputs = nullptr;
  size_t output_count = 0;
};

enum class CopyDirection : int {
  kHostToHost = 0,
  kHostToDevice = 1,
  kDeviceToHost = 2,
  kDeviceToDevice = 3,
  kFromPointers = 4,  // cudaMemcpyDefault
};

// `depth` planes of `rows` rows of `row_bytes`. A plain copy has one row.
struct CopyRequest {
  void* to = nullptr;
  const void* from = nullptr;
  uint64_t row_bytes = 0;
  uint64_t rows = 1, depth = 1;
  uint64_t to_pitch = 0, from_pitch = 0;  // bytes between rows
  uint64_t to_plane = 0, from_plane = 0;  // bytes between planes
  CopyDirection direction = CopyDirection::kFromPointers;
  void* stream = nullptr;
  bool asynchronous = false;
};

// Sets `rows` rows of `elements` elements of `element_bytes` (1, 2 or 4) each.
struct FillRequest {
  void* to = nullptr;
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  uint64_t elements = 0;
  uint64_t rows = 1, depth = 1;
  uint64_t pitch = 0, plane = 0;
  void* stream = nullptr;
  bool asynchronous = false;
};

enum class MemoryKind { kUnknown, kHost, kDevice };

struct PointerInfo {
  MemoryKind kind = MemoryKind::kUnknown;
  int device = -1;
  uint64_t base = 0;  // of the allocation
  uint64_t bytes = 0;
  void* host_pointer = nullptr;
  void* device_pointer = nullptr;
  bool registered = false;  // host memory of the program's own, page-locked later
  unsigned host_flags = 0;
  uint64_t buffer_id = 0;  // unique for the life of the process
  void* pool = nullptr;
};

struct DeviceMemoryInfo {
  uint64_t free_bytes = 0;  // of the GPU, which other processes may use, too
  uint64_t total_bytes = 0;
  uint64_t own_bytes = 0;  // held by this process
};

// cudaMemAccessFlags, CUmemAccess_flags.
enum class MemoryAccess : uint64_t { kNone = 0, kRead = 1, kReadWrite = 3 };
inline bool IsAccess(MemoryAccess access) {
  return access == MemoryAccess::kNone || access == MemoryAccess::kRead ||
         access == MemoryAccess::kReadWrite;
}

// cudaMemPoolAttr, the rows that are numbers of bytes or switches.
enum class PoolAttribute : int {
  kReuseFollowEventDependencies = 1,
  kReuseAllowOpportunistic = 2,
  kReuseAllowInternalDependencies = 3,
  kReleaseThreshold = 4,
  kReservedCurrent = 5,
  kReservedHigh = 6,
  kUsedCurrent = 7,
  kUsedHigh = 8,
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GPU_TYPES_H_
