// Which code of the process is a compiler's: NVRTC, which PyTorch compiles some of its
// element-wise kernels with (torch.special, the start values of weights).
//
// How long a compilation takes is not modelled, and a program keeps what it compiled in
// files: its next run, or another rank, finds them and compiles nothing. So what a
// compiler reads of the clock while it works costs no time either.
//
// Thread rule: any thread; legal in a signal handler.

#ifndef VRANK_VIRTUAL_HOST_COMPILER_CODE_H_
#define VRANK_VIRTUAL_HOST_COMPILER_CODE_H_

namespace vrank::host {

// Whether `code` lies in a library that is one.
bool IsCompilerCode(const void* code);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_COMPILER_CODE_H_
