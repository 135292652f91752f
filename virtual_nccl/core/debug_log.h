// The lines that NCCL_DEBUG asks for, in NCCL's format.
//
// Scripts grep the logs of training jobs for these lines ("NCCL version ...",
// "... Init COMPLETE"), so they look like NCCL's and go where NCCL's go: to standard
// output, or to the file that NCCL_DEBUG_FILE names (%h host, %p process). Nothing is
// written unless NCCL_DEBUG is set. The time stamps that NCCL puts before warnings are
// left out: two runs print the same.
//
// Thread rule: every function may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_CORE_DEBUG_LOG_H_
#define VRANK_VIRTUAL_NCCL_CORE_DEBUG_LOG_H_

#include <source_location>

namespace vrank::nccl {

enum class DebugLevel { kNone, kVersion, kWarn, kInfo };

// Parts of NCCL_DEBUG=INFO, as NCCL_DEBUG_SUBSYS names them; this library has lines for
// these. By default kInit and kEnv are on.
enum class Subsystem { kInit, kColl, kEnv, kReg };

// NCCL_DEBUG as read at the first call, or since ResetDebugLog.
DebugLevel CurrentDebugLevel();
// Reads NCCL_DEBUG and NCCL_DEBUG_FILE again at the next line (ncclResetDebugInit).
void ResetDebugLog();

// "NCCL version 2.28.9+cuda13.0", once per process. NCCL writes it at the first init:
// of rank 0, or of every rank from NCCL_DEBUG=INFO on.
void LogVersion(unsigned rank);
// Found at `where` by the calling thread.
void LogWarning(std::source_location where, const char* message);
// Whether LogInfo would write a line. Costs a load.
bool IsLogged(Subsystem subsystem);
// `device`: shown in brackets.
__attribute__((format(printf, 3, 4))) void LogInfo(Subsystem subsystem, int device,
                                                   const char* format, ...);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_DEBUG_LOG_H_
