// What a failed call leaves behind: its result and one line that says why.
//
// NCCL keeps the text of the newest failure of the process for ncclGetLastError, and
// prints it where NCCL_DEBUG asks for warnings. Here a thread sees its own newest
// failure first, so that the reason that a program prints belongs to the call that it
// made; a thread without a failure of its own (a watchdog) sees the newest of the
// process.
//
// Thread rule: every function may be called from any thread.

#ifndef VRANK_VIRTUAL_NCCL_CORE_ERROR_H_
#define VRANK_VIRTUAL_NCCL_CORE_ERROR_H_

#include <nccl.h>

#include <source_location>

namespace vrank::nccl {

inline constexpr char kLibrary[] = "virtual_nccl";

// A result, and the line of this library that found it, which NCCL_DEBUG=WARN shows.
struct Failure {
  // Implicit: the result stands in for it in calls of Fail.
  Failure(ncclResult_t result,
          std::source_location where = std::source_location::current())
      : result(result), where(where) {}

  ncclResult_t result;
  std::source_location where;
};

// Keeps the message and returns the result: `return Fail(ncclInvalidArgument, "...",
// ...)`. A message names the function, says what is wrong with it, and has no line end.
__attribute__((format(printf, 2, 3))) ncclResult_t Fail(Failure failure,
                                                        const char* format, ...);

// The text of the newest failure, or "". Valid until the thread's next call of this
// function or of Fail.
const char* LastError();

// NCCL's words for a result.
const char* ErrorString(ncclResult_t result);

}  // namespace vrank::nccl

#endif  // VRANK_VIRTUAL_NCCL_CORE_ERROR_H_
