// The driver calls as which work of libraries appears to a profiler.
//
// Thread rule: constants.

#ifndef VRANK_VIRTUAL_GPU_CORE_LIBRARY_CALLS_H_
#define VRANK_VIRTUAL_GPU_CORE_LIBRARY_CALLS_H_

namespace vrank::gpu {

// A launch by libcublas, libcudnn or libnccl, and a memset by libcudnn. (Which call
// cuDNN makes was not seen.)
inline constexpr const char* kLibraryLaunch = "cuLaunchKernelEx";
inline constexpr const char* kLibraryFill = "cuMemsetD32Async";
// cuBLAS synchronizes on its own behalf, too.
inline constexpr const char* kLibrarySynchronize = "cuCtxSynchronize";

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_LIBRARY_CALLS_H_
