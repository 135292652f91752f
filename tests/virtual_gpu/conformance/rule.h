// A documented rule of the CUDA runtime, checked through its public API alone.
//
// The program builds against NVIDIA's libcudart as well (g++ -std=c++20 *.cc -lcudart)
// and must pass on a real GPU: what fails there is a mistake in the test, what fails on
// the virtual GPU only is a mistake in the virtual GPU. Hence no kernel (no nvcc), no
// test library, nothing of vrank.
//
// A check that fails is reported and its rule goes on, so that one run shows all.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CONFORMANCE_RULE_H_
#define VRANK_TESTS_VIRTUAL_GPU_CONFORMANCE_RULE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

namespace conformance {

struct Rule {
  const char* name;
  void (*check)();
};

// One list per chapter of CUDA's documentation.
std::span<const Rule> StreamRules();
std::span<const Rule> EventRules();
std::span<const Rule> MemoryRules();
std::span<const Rule> ErrorRules();
std::span<const Rule> CaptureRules();
std::span<const Rule> GraphRules();

// Counts a failure of the rule that runs.
void Fail(const char* file, int line, const char* what, const char* seen);

inline void Expect(cudaError_t seen, cudaError_t wanted, const char* what,
                   const char* file, int line) {
  if (seen != wanted)
    Fail(file, line, what, cudaGetErrorName(seen));
  // What a check provoked must not surprise the next one.
  [[maybe_unused]] cudaError_t forgotten = cudaGetLastError();
}

}  // namespace conformance

#define EXPECT_OK(call) \
  conformance::Expect((call), cudaSuccess, #call, __FILE__, __LINE__)
#define EXPECT_ERROR(error, call) \
  conformance::Expect((call), error, #call " == " #error, __FILE__, __LINE__)
#define EXPECT_THAT(condition)                                    \
  do {                                                            \
    if (!(condition))                                             \
      conformance::Fail(__FILE__, __LINE__, #condition, "false"); \
  } while (false)

#endif  // VRANK_TESTS_VIRTUAL_GPU_CONFORMANCE_RULE_H_
