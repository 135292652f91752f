// What the parts of random_guest share: checks, draws, the clock, a hash.
//
// Thread rule: stateless, but for the generator that the caller passes.

#ifndef VRANK_TESTS_E2E_RANDOM_SUPPORT_H_
#define VRANK_TESTS_E2E_RANDOM_SUPPORT_H_

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#define CHECK_CUDA(call)                                            \
  do {                                                              \
    cudaError_t error = (call);                                     \
    if (error != cudaSuccess) {                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
              cudaGetErrorString(error));                           \
      exit(1);                                                      \
    }                                                               \
  } while (false)
#define CHECK_NCCL(call)                                            \
  do {                                                              \
    ncclResult_t result = (call);                                   \
    if (result != ncclSuccess) {                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
              ncclGetLastError(nullptr));                           \
      exit(1);                                                      \
    }                                                               \
  } while (false)

using Random = std::mt19937_64;

inline int Draw(Random& random, int below) {
  return static_cast<int>(random() % below);
}

// Mostly small, sometimes megabytes: both sides of the send credit.
inline size_t DrawBytes(Random& random) {
  return (size_t{4} << Draw(random, 22)) + 4 * Draw(random, 64);
}

inline long long Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// FNV-1a: what a run shows of bytes that it copied to the host.
inline uint64_t Hash(const void* data, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  return hash;
}

#endif  // VRANK_TESTS_E2E_RANDOM_SUPPORT_H_
