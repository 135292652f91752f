// CUDA runtime API, "Memory management", "Stream ordered memory allocator", "Unified
// addressing".

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/virtual_gpu/conformance/rule.h"

namespace conformance {
namespace {

std::vector<unsigned char> Counting(size_t bytes) {
  std::vector<unsigned char> values(bytes);
  std::iota(values.begin(), values.end(), static_cast<unsigned char>(3));
  return values;
}

// cudaMalloc: "The allocated memory is suitably aligned for any kind of variable"; the
// programming guide, "Device memory accesses": to at least 256 bytes.
void AllocationsAreAligned() {
  for (size_t bytes : {size_t{1}, size_t{100}, size_t{5000}, size_t{3} << 20}) {
    void* address = nullptr;
    EXPECT_OK(cudaMalloc(&address, bytes));
    EXPECT_THAT(reinterpret_cast<uintptr_t>(address) % 256 == 0);
    EXPECT_OK(cudaFree(address));
  }
}

// cudaFree: "If devPtr is 0, no operation is performed." A pointer that was freed or
// never returned by an allocation is an error.
void FreeingIsChecked() {
  EXPECT_OK(cudaFree(nullptr));
  void* address = nullptr;
  EXPECT_OK(cudaMalloc(&address, 4096));
  EXPECT_OK(cudaFree(address));
  EXPECT_ERROR(cudaErrorInvalidValue, cudaFree(address));
}

// cudaMemGetInfo: free memory shrinks by at least what was allocated, and comes back.
void FreeMemoryIsAccounted() {
  size_t before = 0;
  size_t during = 0;
  size_t after = 0;
  size_t total = 0;
  constexpr size_t kBytes = size_t{64} << 20;
  void* address = nullptr;
  EXPECT_OK(cudaMemGetInfo(&before, &total));
  EXPECT_OK(cudaMalloc(&address, kBytes));
  EXPECT_OK(cudaMemGetInfo(&during, &total));
  EXPECT_OK(cudaFree(address));
  EXPECT_OK(cudaMemGetInfo(&after, &total));
  EXPECT_THAT(before >= during + kBytes);
  EXPECT_THAT(after == before);
}

// cudaMemcpy "Copies count bytes from the memory area pointed to by src to the memory
// area pointed to by dst", in every direction.
void BytesArriveUnchanged() {
  const auto sent = Counting(10000);
  std::vector<unsigned char> got(sent.size());
  void* first = nullptr;
  void* second = nullptr;
  EXPECT_OK(cudaMalloc(&first, sent.size()));
  EXPECT_OK(cudaMalloc(&second, sent.size()));
  EXPECT_OK(cudaMemcpy(first, sent.data(), sent.size(), cudaMemcpyHostToDevice));
  EXPECT_OK(cudaMemcpy(second, first, sent.size(), cudaMemcpyDeviceToDevice));
  EXPECT_OK(cudaMemcpy(got.data(), second, sent.size(), cudaMemcpyDefault));
  EXPECT_THAT(got == sent);
  EXPECT_OK(cudaFree(first));
  EXPECT_OK(cudaFree(second));
}

// cudaMemset: "Fills the first count bytes [...] with the constant byte value value."
void MemsetSetsBytes() {
  unsigned char got[64];
  void* address = nullptr;
  EXPECT_OK(cudaMalloc(&address, 64));
  EXPECT_OK(cudaMemset(address, 0x1ff, 64));
  EXPECT_OK(cudaMemset(static_cast<char*>(address) + 10, 7, 1));
  EXPECT_OK(cudaMemcpy(got, address, 64, cudaMemcpyDeviceToHost));
  EXPECT_THAT(got[9] == 0xff && got[10] == 7 && got[11] == 0xff && got[63] == 0xff);
  EXPECT_OK(cudaFree(address));
}

// cudaMemcpy2D: rows of `width` bytes, `pitch` apart; "width must not exceed either
// dpitch or spitch".
void PitchedCopiesMoveRows() {
  const auto sent = Counting(40);
  unsigned char got[40] = {};
  void* address = nullptr;
  size_t pitch = 0;
  EXPECT_OK(cudaMallocPitch(&address, &pitch, 10, 4));
  EXPECT_THAT(pitch >= 10);
  EXPECT_OK(
      cudaMemcpy2D(address, pitch, sent.data(), 10, 10, 4, cudaMemcpyHostToDevice));
  EXPECT_OK(cudaMemcpy2D(got, 10, address, pitch, 10, 4, cudaMemcpyDeviceToHost));
  EXPECT_THAT(std::memcmp(got, sent.data(), 40) == 0);
  EXPECT_ERROR(cudaErrorInvalidPitchValue,
               cudaMemcpy2D(got, 5, address, pitch, 10, 4, cudaMemcpyDeviceToHost));
  EXPECT_OK(cudaFree(address));
}

// cudaMemcpy: "cudaErrorInvalidMemcpyDirection" for kinds that do not exist.
void DirectionsAreChecked() {
  char a = 0;
  char b = 0;
  EXPECT_ERROR(cudaErrorInvalidMemcpyDirection,
               cudaMemcpy(&a, &b, 1, static_cast<cudaMemcpyKind>(9)));
}

// cudaPointerGetAttributes: device, host (page-locked), and since CUDA 11
// cudaMemoryTypeUnregistered for all other host memory.
void PointersSayWhatTheyAre() {
  cudaPointerAttributes attributes;
  void* device = nullptr;
  void* locked = nullptr;
  int local = 0;
  EXPECT_OK(cudaMalloc(&device, 4096));
  EXPECT_OK(cudaMallocHost(&locked, 4096));
  EXPECT_OK(cudaPointerGetAttributes(&attributes, static_cast<char*>(device) + 9));
  EXPECT_THAT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
  EXPECT_THAT(attributes.devicePointer == static_cast<char*>(device) + 9);
  EXPECT_OK(cudaPointerGetAttributes(&attributes, locked));
  EXPECT_THAT(attributes.type == cudaMemoryTypeHost);
  EXPECT_THAT(attributes.hostPointer == locked);
  EXPECT_OK(cudaPointerGetAttributes(&attributes, &local));
  EXPECT_THAT(attributes.type == cudaMemoryTypeUnregistered);
  EXPECT_OK(cudaFree(device));
  EXPECT_OK(cudaFreeHost(locked));
}

// cudaHostRegister: "cudaErrorHostMemoryAlreadyRegistered"; cudaHostUnregister:
// "cudaErrorHostMemoryNotRegistered".
void RegistrationIsChecked() {
  std::vector<char> buffer(1 << 16);
  EXPECT_OK(cudaHostRegister(buffer.data(), buffer.size(), cudaHostRegisterDefault));
  EXPECT_ERROR(cudaErrorHostMemoryAlreadyRegistered,
               cudaHostRegister(buffer.data(), buffer.size(), cudaHostRegisterDefault));
  EXPECT_OK(cudaHostUnregister(buffer.data()));
  EXPECT_ERROR(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(buffer.data()));
}

// cudaHostGetDevicePointer: with unified addressing the device pointer of memory from
// cudaHostAlloc equals the host pointer.
void LockedMemoryHasOneAddress() {
  void* locked = nullptr;
  void* device = nullptr;
  EXPECT_OK(cudaHostAlloc(&locked, 100, cudaHostAllocMapped));
  EXPECT_OK(cudaHostGetDevicePointer(&device, locked, 0));
  EXPECT_THAT(device == locked);
  unsigned flags = 0;
  EXPECT_OK(cudaHostGetFlags(&flags, locked));
  EXPECT_THAT((flags & cudaHostAllocMapped) != 0);
  EXPECT_OK(cudaFreeHost(locked));
}

// cudaMallocAsync: memory may be used in stream order as soon as the call returns, and
// cudaFreeAsync gives it back in stream order.
void StreamOrderedMemoryWorksInOrder() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  unsigned char got[100] = {};
  void* address = nullptr;
  EXPECT_OK(cudaMallocAsync(&address, sizeof got, stream));
  EXPECT_OK(cudaMemsetAsync(address, 5, sizeof got, stream));
  EXPECT_OK(cudaMemcpyAsync(got, address, sizeof got, cudaMemcpyDeviceToHost, stream));
  EXPECT_OK(cudaFreeAsync(address, stream));
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_THAT(got[0] == 5 && got[99] == 5);
  EXPECT_OK(cudaStreamDestroy(stream));
}

// cudaMemPoolAttrReleaseThreshold: "Amount of reserved memory in bytes to hold onto
// before trying to release memory back to the OS. When more than the release threshold
// bytes of memory are held by the memory pool, the allocator will try to release memory
// back to the OS on the next call to stream, event or context synchronize. (default
// 0)".
void PoolsKeepWhatTheThresholdSays() {
  cudaMemPool_t pool;
  EXPECT_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  uint64_t keep = ~uint64_t{0};
  EXPECT_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  void* address = nullptr;
  EXPECT_OK(cudaMallocAsync(&address, 1 << 20, nullptr));
  EXPECT_OK(cudaFreeAsync(address, nullptr));
  EXPECT_OK(cudaDeviceSynchronize());
  uint64_t reserved = 0;
  uint64_t used = 1;
  EXPECT_OK(
      cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  EXPECT_OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_THAT(reserved >= 1 << 20);
  EXPECT_THAT(used == 0);
  keep = 0;
  EXPECT_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  EXPECT_OK(cudaMemPoolTrimTo(pool, 0));
  EXPECT_OK(
      cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  EXPECT_THAT(reserved == 0);
}

// cudaMemPoolDestroy: "If any pointers obtained from this pool haven't been freed
// [...], the function will return immediately and the resources associated with the
// pool will be released automatically once there are no more outstanding allocations."
void PoolsMayBeDestroyedWhileTheirMemoryIsInUse() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool;
  void* address = nullptr;
  EXPECT_OK(cudaMemPoolCreate(&pool, &properties));
  EXPECT_OK(cudaMallocFromPoolAsync(&address, 1 << 20, pool, nullptr));
  cudaMemAccessFlags access = cudaMemAccessFlagsProtNone;
  EXPECT_OK(cudaMemPoolGetAccess(&access, pool, &properties.location));
  EXPECT_THAT(access == cudaMemAccessFlagsProtReadWrite);
  const cudaMemAccessDesc description{properties.location,
                                      cudaMemAccessFlagsProtReadWrite};
  EXPECT_OK(cudaMemPoolSetAccess(pool, &description, 1));
  EXPECT_OK(cudaMemPoolDestroy(pool));
  EXPECT_OK(cudaMemsetAsync(address, 0, 1 << 20, nullptr));
  EXPECT_OK(cudaFreeAsync(address, nullptr));
  EXPECT_OK(cudaDeviceSynchronize());
}

// cudaMemcpyBatchAsync: "Performs memory copies from source buffers specified in srcs
// to destination buffers specified in dsts. The size of each copy is specified in
// sizes."
void BatchesCopyEachOfThem() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto sent = Counting(100);
  std::vector<unsigned char> got(sent.size());
  unsigned char* device = nullptr;
  EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&device), sent.size()));
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;
  void* in[] = {device, device + 60};
  const void* out[] = {sent.data(), sent.data() + 60};
  const size_t sizes[] = {60, 40};
  EXPECT_OK(cudaMemcpyBatchAsync(in, out, sizes, 2, &attributes, &first, 1, stream));
  EXPECT_OK(cudaMemcpyAsync(got.data(), device, got.size(), cudaMemcpyDefault, stream));
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_THAT(got == sent);
  // "the first entry in attrsIdxs must always be 0"; "hStream [...] Must not be legacy
  // NULL stream"; "Each memcpy operation in the batch must have a valid
  // cudaMemcpyAttributes [...] otherwise the API will return cudaErrorInvalidValue".
  size_t second = 1;
  EXPECT_ERROR(
      cudaErrorInvalidValue,
      cudaMemcpyBatchAsync(in, out, sizes, 2, &attributes, &second, 1, stream));
  EXPECT_ERROR(
      cudaErrorInvalidValue,
      cudaMemcpyBatchAsync(in, out, sizes, 2, &attributes, &first, 1, nullptr));
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
  EXPECT_ERROR(cudaErrorInvalidValue,
               cudaMemcpyBatchAsync(in, out, sizes, 2, &attributes, &first, 1, stream));
  EXPECT_OK(cudaFree(device));
  EXPECT_OK(cudaStreamDestroy(stream));
}

// cudaMemcpy3DBatchAsync: rows of rowLength elements of one byte; "When either of these
// values is zero, that aspect of the operand is considered to be tightly packed".
void BatchesCopyBlocks() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto sent = Counting(24);
  unsigned char got[30] = {};
  void* device = nullptr;
  EXPECT_OK(cudaMalloc(&device, 30));
  EXPECT_OK(cudaMemset(device, 0, 30));
  cudaMemcpy3DBatchOp operation{};
  operation.src.type = operation.dst.type = cudaMemcpyOperandTypePointer;
  operation.src.op.ptr.ptr = const_cast<unsigned char*>(sent.data());
  operation.dst.op.ptr.ptr = device;
  operation.dst.op.ptr.rowLength = 10;
  operation.extent = {8, 3, 1};
  operation.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  EXPECT_OK(cudaMemcpy3DBatchAsync(1, &operation, 0, stream));
  EXPECT_OK(cudaMemcpyAsync(got, device, 30, cudaMemcpyDeviceToHost, stream));
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_THAT(got[7] == sent[7] && got[8] == 0 && got[10] == sent[8] &&
              got[27] == sent[23]);
  // "The width, height and depth of a copy [...] must not be zero."
  operation.extent.depth = 0;
  EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(1, &operation, 0, stream));
  EXPECT_OK(cudaFree(device));
  EXPECT_OK(cudaStreamDestroy(stream));
}

constexpr Rule kRules[] = {
    {"allocations are aligned", AllocationsAreAligned},
    {"freeing is checked", FreeingIsChecked},
    {"free memory is accounted", FreeMemoryIsAccounted},
    {"bytes arrive unchanged", BytesArriveUnchanged},
    {"memset sets bytes", MemsetSetsBytes},
    {"pitched copies move rows", PitchedCopiesMoveRows},
    {"directions are checked", DirectionsAreChecked},
    {"pointers say what they are", PointersSayWhatTheyAre},
    {"registration is checked", RegistrationIsChecked},
    {"page-locked memory has one address", LockedMemoryHasOneAddress},
    {"stream-ordered memory works in order", StreamOrderedMemoryWorksInOrder},
    {"pools keep what the threshold says", PoolsKeepWhatTheThresholdSays},
    {"pools may be destroyed while their memory is in use",
     PoolsMayBeDestroyedWhileTheirMemoryIsInUse},
    {"batches copy each of them", BatchesCopyEachOfThem},
    {"batches copy blocks", BatchesCopyBlocks},
};

}  // namespace

std::span<const Rule> MemoryRules() {
  return kRules;
}

}  // namespace conformance
