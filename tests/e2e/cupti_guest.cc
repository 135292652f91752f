// A rank that does a little of everything, beside a user of CUPTI (cupti_user.cc).
//
//   cupti_guest LIBRARY FIRST LATER
//
// LIBRARY is opened first; where CUPTI_USER_AT_LOAD names steps, it does them then. The
// steps FIRST come before the program's first call of CUDA, LATER after half of the
// kernels; "-": none. FIRST may be "threads": two threads begin at once, one with CUPTI
// and one with CUDA.

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "hand_made_kernel.h"
#include "random_support.h"

int main(int argc, char** argv) {
  if (argc != 4)
    return 2;
  void* const library = dlopen(argv[1], RTLD_NOW);
  auto use = library == nullptr
                 ? nullptr
                 : reinterpret_cast<void (*)(const char*)>(dlsym(library, "use_cupti"));
  if (use == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  if (strcmp(argv[2], "threads") == 0) {
    std::thread other(use, "subscribe");
    int devices = 0;
    CHECK_CUDA(cudaGetDeviceCount(&devices));
    other.join();
  } else if (strcmp(argv[2], "-") != 0) {
    use(argv[2]);
  }
  constexpr size_t kCount = 1 << 16, kMore = 8 << 20;
  constexpr float kOne = 1;
  cudaEvent_t copied = nullptr;
  CHECK_CUDA(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  float *a = nullptr, *b = nullptr;
  CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&a), kCount * sizeof(float)));
  CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&b), kCount * sizeof(float)));
  for (int i = 0; i < 6; ++i) {
    if (i == 3 && strcmp(argv[3], "-") != 0)
      use(argv[3]);
    cudaStream_t stream = nullptr;
    float* more = nullptr;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMalloc(reinterpret_cast<void**>(&more), kMore));
    CHECK_CUDA(cudaMemcpyAsync(a, &kOne, sizeof kOne, cudaMemcpyHostToDevice, stream));
    CHECK_CUDA(cudaEventRecord(copied, stream));
    CHECK_CUDA(cudaStreamWaitEvent(nullptr, copied, 0));
    CHECK_CUDA(cudaMemset(b, 0, kCount));
    CHECK_CUDA(LaunchScale(a, b, kCount, nullptr));
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaFree(more));
    CHECK_CUDA(cudaStreamDestroy(stream));
  }
  CHECK_CUDA(cudaEventDestroy(copied));
  CHECK_CUDA(cudaFree(a));
  CHECK_CUDA(cudaFree(b));
  printf("done\n");
  return 0;
}
