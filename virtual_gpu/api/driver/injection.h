// Tools that the environment injects: CUDA_INJECTION64_PATH.
//
// NVIDIA's driver opens that library in cuInit and calls its InitializeInjection, so
// that a tool is there before the program has done anything with the device. So does
// this one; a program gets here by cuInit, or by the first library that asks for the
// virtual GPU, which is when NVIDIA's libraries would call cuInit.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DRIVER_INJECTION_H_
#define VRANK_VIRTUAL_GPU_API_DRIVER_INJECTION_H_

namespace vrank::gpu {

// Once per process; later calls, and those that the tool itself makes meanwhile, return
// at once. A library that cannot be opened or has no such function is named on stderr,
// and the program goes on without it. An empty path and "none" mean no tool.
void InjectTool();

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_DRIVER_INJECTION_H_
