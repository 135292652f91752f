// Kernels whose source says which launches they take.

extern "C" {

__global__ void plain(int* p) {
  p[0] = 1;
}

__global__ void __launch_bounds__(256) bounded(int* p) {
  p[0] = 1;
}

__global__ void fixed_shared(int* p) {
  __shared__ int values[3000];
  values[threadIdx.x] = p[0];
  __syncthreads();
  p[0] = values[p[1]];
}

__global__ void dynamic_shared(int* p) {
  extern __shared__ int values[];
  p[0] = values[p[1]];
}

__global__ void many_registers(float* p) {
  float values[80];
#pragma unroll
  for (int i = 0; i < 80; ++i)
    values[i] = p[i * 33];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 80; ++i)
    p[i * 77] = values[i] * values[79 - i];
}

__global__ void stack(int* p) {
  int values[100];
  for (int i = 0; i < 100; ++i)
    values[i] = p[i];
  p[0] = values[p[1]];
}

#if __CUDA_ARCH__ >= 900
__global__ void __launch_bounds__(192, 2, 4) bounded_cluster(int* p) {
  p[0] = 1;
}

__global__ void __cluster_dims__(2, 1, 1) cluster(int* p) {
  p[0] = 1;
}

__global__ void __block_size__((64, 2, 1), (2, 1, 1)) grid_of_clusters(int* p) {
  p[0] = 1;
}
#endif

}  // extern "C"
