// Kernels whose names do not say how large their parameters are. Compiled only.

struct Three {
  float* pointers[3];
  int count;
};
struct Odd {
  char bytes[3];
};
struct Empty {};
struct alignas(16) Aligned {
  double x;
};
struct Large {
  char bytes[20000];
};

template <typename... T>
__global__ void Each(T... values) {}
template <typename F>
__global__ void Call(int n, F function) {
  if (threadIdx.x < n)
    function(n);
}

template __global__ void Each<Three, int>(Three, int);
template __global__ void Each<char, Odd, Empty, double>(char, Odd, Empty, double);
template __global__ void Each<float, Aligned, Three>(float, Aligned, Three);
template __global__ void Each<int, Large, Odd, long>(int, Large, Odd, long);
template __global__ void Each<>();
extern "C" __global__ void unmangled(Three three, const char* text, short value) {}

void Lambdas(float* out, Three three, long step) {
  Call<<<1, 32>>>(32, [=] __device__(int i) { out[i] = static_cast<float>(step); });
  Call<<<1, 32>>>(32, [=] __device__(int i) { three.pointers[i % 3][i] = 1; });
}
