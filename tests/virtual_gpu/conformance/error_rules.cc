// CUDA runtime API, "Error handling".

#include <cstring>
#include <thread>

#include "tests/virtual_gpu/conformance/rule.h"

namespace conformance {
namespace {

// cudaGetLastError: "Returns the last error that has been produced by any of the
// runtime calls in the same instance of the CUDA Runtime library in the host thread and
// resets it to cudaSuccess."
void LastErrorIsToldOnce() {
  void* address = nullptr;
  [[maybe_unused]] cudaError_t error = cudaMalloc(&address, ~size_t{0} / 2);
  EXPECT_THAT(cudaGetLastError() == cudaErrorMemoryAllocation);
  EXPECT_THAT(cudaGetLastError() == cudaSuccess);
}

// cudaPeekAtLastError: "does not reset the error to cudaSuccess".
void PeekingKeepsTheError() {
  [[maybe_unused]] cudaError_t error = cudaSetDevice(-1);
  EXPECT_THAT(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  EXPECT_THAT(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  EXPECT_THAT(cudaGetLastError() == cudaErrorInvalidDevice);
}

// A call that succeeds leaves the last error alone.
void SuccessKeepsTheError() {
  [[maybe_unused]] cudaError_t error = cudaSetDevice(-1);
  int device = -1;
  EXPECT_THAT(cudaGetDevice(&device) == cudaSuccess);
  EXPECT_THAT(cudaGetLastError() == cudaErrorInvalidDevice);
}

// "... in the host thread": errors of one thread are not another's.
void ErrorsBelongToTheirThread() {
  [[maybe_unused]] cudaError_t error = cudaSetDevice(-1);
  cudaError_t other = cudaErrorUnknown;
  std::thread([&] { other = cudaGetLastError(); }).join();
  EXPECT_THAT(other == cudaSuccess);
  EXPECT_THAT(cudaGetLastError() == cudaErrorInvalidDevice);
}

// CUDA C++ Programming Guide, "Error Checking": "cudaErrorNotReady that may be returned
// by functions such as cudaStreamQuery() and cudaEventQuery() is not considered an
// error and is therefore not reported by cudaPeekAtLastError() or cudaGetLastError()."
void NotReadyIsNoError() {
  void* address = nullptr;
  cudaEvent_t event = nullptr;
  EXPECT_OK(cudaMalloc(&address, 256 << 20));
  EXPECT_OK(cudaEventCreate(&event));
  cudaError_t stream_state = cudaSuccess;
  cudaError_t event_state = cudaSuccess;
  for (int i = 0;
       i < 1000 && (stream_state == cudaSuccess || event_state == cudaSuccess); ++i) {
    EXPECT_OK(cudaMemsetAsync(address, 1, 256 << 20, nullptr));
    EXPECT_OK(cudaEventRecord(event, nullptr));
    stream_state = cudaStreamQuery(nullptr);
    event_state = cudaEventQuery(event);
    EXPECT_THAT(cudaPeekAtLastError() == cudaSuccess);
  }
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_OK(cudaEventDestroy(event));
  EXPECT_OK(cudaFree(address));
}

// Out of memory is no sticky error: the next allocation that fits succeeds.
void OutOfMemoryPasses() {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  EXPECT_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  void* address = nullptr;
  EXPECT_ERROR(cudaErrorMemoryAllocation, cudaMalloc(&address, total_bytes + 1));
  EXPECT_OK(cudaMalloc(&address, 1 << 20));
  EXPECT_OK(cudaFree(address));
}

// cudaGetErrorName, cudaGetErrorString: "If the error code is not recognized,
// 'unrecognized error code' is returned."
void ErrorsHaveNamesAndTexts() {
  EXPECT_THAT(std::strcmp(cudaGetErrorName(cudaErrorInvalidValue),
                          "cudaErrorInvalidValue") == 0);
  EXPECT_THAT(
      std::strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") == 0);
  EXPECT_THAT(
      std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
  EXPECT_THAT(std::strcmp(cudaGetErrorString(static_cast<cudaError_t>(12345)),
                          "unrecognized error code") == 0);
}

// cudaSetDevice: "cudaErrorInvalidDevice" for ordinals that do not exist.
void DevicesAreChecked() {
  int devices = 0;
  EXPECT_OK(cudaGetDeviceCount(&devices));
  EXPECT_ERROR(cudaErrorInvalidDevice, cudaSetDevice(devices));
  cudaDeviceProp properties;
  EXPECT_ERROR(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, devices));
  int value = 0;
  EXPECT_ERROR(cudaErrorInvalidDevice,
               cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, devices));
}

// cudaGetDeviceProperties and cudaDeviceGetAttribute tell the same.
void PropertiesAgreeWithAttributes() {
  cudaDeviceProp properties;
  EXPECT_OK(cudaGetDeviceProperties(&properties, 0));
  auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    EXPECT_OK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
  };
  EXPECT_THAT(properties.warpSize == 32);
  EXPECT_THAT(properties.major == attribute(cudaDevAttrComputeCapabilityMajor));
  EXPECT_THAT(properties.multiProcessorCount ==
              attribute(cudaDevAttrMultiProcessorCount));
  EXPECT_THAT(properties.maxThreadsPerBlock ==
              attribute(cudaDevAttrMaxThreadsPerBlock));
  EXPECT_THAT(properties.l2CacheSize == attribute(cudaDevAttrL2CacheSize));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  EXPECT_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  EXPECT_THAT(properties.totalGlobalMem >= total_bytes);
}

constexpr Rule kRules[] = {
    {"the last error is told once", LastErrorIsToldOnce},
    {"peeking keeps the error", PeekingKeepsTheError},
    {"success keeps the error", SuccessKeepsTheError},
    {"errors belong to their thread", ErrorsBelongToTheirThread},
    {"not being ready is no error", NotReadyIsNoError},
    {"out of memory passes", OutOfMemoryPasses},
    {"errors have names and texts", ErrorsHaveNamesAndTexts},
    {"devices are checked", DevicesAreChecked},
    {"properties agree with attributes", PropertiesAgreeWithAttributes},
};

}  // namespace

std::span<const Rule> ErrorRules() {
  return kRules;
}

}  // namespace conformance
