// What of NCCL's environment reaches this library, and what does not.
//
// Most of NCCL's variables choose algorithms, channels and networks, which the network
// model of the emulator does not know. A program that sets one is told so once, on
// standard error; with NCCL_DEBUG=INFO every variable has NCCL's own line, too.
//
// Thread rule: every function may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_CORE_ENVIRONMENT_H_
#define VRANK_VIRTUAL_NCCL_CORE_ENVIRONMENT_H_

#include <string>
#include <vector>

namespace vrank::nccl {

// "NAME=value" entries of an environment (its end is a null pointer), as names in
// order.
struct NcclVariables {
  std::vector<std::string> honoured;
  std::vector<std::string> ignored;
  // Honoured ones whose value NCCL does not take: "NCCL_COMM_BLOCKING=7 (0 or 1)".
  std::vector<std::string> unusable;
};
NcclVariables FindNcclVariables(const char* const* environment);

// Says what was found, once per process. `device`: for the lines of NCCL_DEBUG=INFO.
void NoteEnvironment(int device);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_ENVIRONMENT_H_
