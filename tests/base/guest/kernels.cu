// Kernels whose names and parameters the tests of base/guest/kernel_signature.h read.
// nvcc -ptx gives for each its mangled name and the offset of every parameter.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <tuple>

namespace lib {
template <typename T>
struct Box {
  T value;
};
enum class Mode { kOne };

template <typename T>
__global__ void Axpy(T a, const T* x, T* y, size_t n) {
  y[n] = a * x[n];
}
template <typename T, typename Index = int>
__global__ void Copy(const T* __restrict__ from, T* __restrict__ to, Index n) {
  to[n] = from[n];
}
template <int kWidth, bool kFast, typename A, typename B>
__global__ void Mixed(A* a, B b, const A* c, const B* const* d) {
  a[kWidth] = kFast ? c[0] : static_cast<A>(d[0][0] + b);
}
template <typename... Ts>
__global__ void Pack(int n, Ts... rest) {}
template <typename... Ts>
__global__ void PackPointers(const Ts*... in, float* out) {}
template <typename T>
__global__ void Boxed(Box<T>* boxes, const Box<T>* more, unsigned char flag, T* plain) {
}
template <typename F>
__global__ void Apply(float* out, long long n, const F* functor) {}
template <template <typename> class C, typename T>
__global__ void Wrapped(C<T>* c, T t) {}
template <typename T, typename U>
__global__ void Pair(std::pair<T, U>* p, const std::tuple<T, U, Box<U>>* t, U u,
                     short s) {}
template <void (*kFunction)(float), typename T>
__global__ void Calls(T* t, char c, double d) {}
}  // namespace lib

__global__ void Plain(float a, const float* x, float* y, int n) {}
__global__ void Nothing() {}
__global__ void Vectors(float4 a, char c, int2 b, uchar3 d, double2 e, short2 f,
                        float3 g, ulonglong4_16a h, dim3 i, longlong2 j) {}
__global__ void Halves(__half a, const __half* b, __nv_bfloat16 c, __nv_bfloat162* d,
                       __half2 e, float f) {}
__global__ void Integers(bool a, char b, unsigned char c, short d, unsigned short e,
                         int f, unsigned g, long h, unsigned long i, long long j,
                         unsigned long long k, int8_t l, uint64_t m) {}
__global__ void Arrays(float* const* rows, const int (*table)[4], void* raw,
                       const void* other, volatile int* flag, float** out) {}
__global__ void Function(void (*f)(int, const float*), int n, lib::Box<int>* b,
                         const lib::Mode* mode) {}
static __global__ void Hidden(const double* a, double* b, unsigned n) {}
namespace {
template <typename T>
__global__ void Anonymous(T* a, T b, const T* c) {}
}  // namespace
struct Holder {
  template <typename T>
  static __host__ void Launch(T* t) {
    auto lambda = [] __device__(T v) { return v; };
    lib::Apply<<<1, 1>>>(nullptr, 1, &lambda);
    lib::Axpy<T><<<1, 1>>>(T{}, t, t, 1);
  }
};
__device__ void Target(float) {}

void LaunchAll() {
  lib::Axpy<double><<<1, 1>>>(0, nullptr, nullptr, 0);
  lib::Axpy<__nv_bfloat16><<<1, 1>>>(__nv_bfloat16(), nullptr, nullptr, 0);
  lib::Copy<float4><<<1, 1>>>(nullptr, nullptr, 0);
  lib::Copy<__half, long><<<1, 1>>>(nullptr, nullptr, 0);
  lib::Mixed<-3, true, float, int><<<1, 1>>>(nullptr, 1, nullptr, nullptr);
  lib::Mixed<4, false, __half, unsigned char><<<1, 1>>>(nullptr, 1, nullptr, nullptr);
  lib::Pack<float, double*, char><<<1, 1>>>(1, 1.f, nullptr, 'a');
  lib::Pack<><<<1, 1>>>(1);
  lib::PackPointers<int, float><<<1, 1>>>(nullptr, nullptr, nullptr);
  lib::Boxed<float><<<1, 1>>>(nullptr, nullptr, 1, nullptr);
  lib::Boxed<lib::Box<short>><<<1, 1>>>(nullptr, nullptr, 1, nullptr);
  lib::Wrapped<lib::Box, double><<<1, 1>>>(nullptr, 1);
  lib::Pair<float, int><<<1, 1>>>(nullptr, nullptr, 1, 2);
  lib::Calls<Target, float><<<1, 1>>>(nullptr, 1, 2);
  Hidden<<<1, 1>>>(nullptr, nullptr, 1);
  Anonymous<float><<<1, 1>>>(nullptr, 1, nullptr);
  Holder::Launch<float>(nullptr);
  Holder::Launch<int>(nullptr);
}
