#include <cassert>

// Kernels that the virtual GPU interprets (launch_interpreter_test.cc).

// Only `in` and `out` are used: the others have what was there before.
struct Pointers {
  const int* before;
  const int* in;
  const int* behind;
  int* out;
};

extern "C" __global__ void adds_one(Pointers p, int n) {
  if (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n)
    p.out[i] = p.in[i] + 1;
}

// One place of `out` is written, which only `at` tells.
extern "C" __global__ void marks(const int* at, int* out) {
  if (threadIdx.x == 0)
    out[at[0]] = 1;
}

extern "C" __global__ void looks_up(const int* at, int* out, int n) {
  const int i = threadIdx.x;
  assert(at[i] < n);
  out[i] = at[i];
}
extern "C" __global__ void takes(const int* scores, const int* at, int* out, int n) {
  const int i = threadIdx.x, place = at[i];
  assert(place < n);
  out[i] = scores[place];
}
