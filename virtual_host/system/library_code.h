// Which code of the process belongs to libraries whose calls mean something else than a
// program's.
//
// Thread rule: any thread; legal in a signal handler.

#ifndef VRANK_VIRTUAL_HOST_SYSTEM_LIBRARY_CODE_H_
#define VRANK_VIRTUAL_HOST_SYSTEM_LIBRARY_CODE_H_

#include <string_view>

namespace vrank::host {

// A compiler's: NVRTC, which PyTorch compiles some of its element-wise kernels with
// (torch.special, the start values of weights). How long a compilation takes is not
// modelled, and a program keeps what it compiled in files: its next run, or another
// rank, finds them and compiles nothing. So what a compiler reads of the clock while it
// works costs no time either.
bool IsCompilerCode(const void* code);
// Its library's folder, with the slash at the end; empty for other code.
std::string_view CompilerFolder(const void* code);

// PyTorch's own. Its waits (Gloo's for a peer's data, c10d's for a store) compute their
// limits from the clock, also where what they wait for has come already: whether it has
// is real time, so such readings cost none. Python code of PyTorch's is a program's.
bool IsTorchCode(const void* code);

// An OpenMP runtime's. The threads that it starts compute for the thread that waits for
// them: they are no helpers, which would have to wait before that one goes on.
bool IsTeamCode(const void* code);

// That, or a math library's whose threads wait for each other by yielding (MKL, which
// lies in libtorch_cpu.so). How often they do depends on the machine, and computing on
// the CPU takes no time.
bool IsMathCode(const void* code);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_SYSTEM_LIBRARY_CODE_H_
