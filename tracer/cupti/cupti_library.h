// The functions of CUPTI that the tracer calls, looked up at run time.
//
// The tracer is not linked with libcupti: one build serves every CUPTI that has these
// functions, NVIDIA's on a real GPU and the stand-in on a virtual one, and a process
// without CUPTI runs untraced instead of not at all.
//
// Thread rule: filled once; then read by any thread.

#ifndef VRANK_TRACER_CUPTI_CUPTI_LIBRARY_H_
#define VRANK_TRACER_CUPTI_CUPTI_LIBRARY_H_

#include <cupti.h>

#include <string>

namespace vrank::tracer {

// Without these there is no trace.
#define VRANK_CUPTI_NEEDED(X)               \
  X(cuptiActivityDisable)                   \
  X(cuptiActivityEnable)                    \
  X(cuptiActivityFlushAll)                  \
  X(cuptiActivityGetNextRecord)             \
  X(cuptiActivityGetNumDroppedRecords)      \
  X(cuptiActivityPopExternalCorrelationId)  \
  X(cuptiActivityPushExternalCorrelationId) \
  X(cuptiActivityRegisterCallbacks)         \
  X(cuptiEnableCallback)                    \
  X(cuptiGetCallbackName)                   \
  X(cuptiGetResultString)                   \
  X(cuptiGetStreamIdEx)                     \
  X(cuptiGetContextId)                      \
  X(cuptiGetTimestamp)                      \
  X(cuptiGetVersion)                        \
  X(cuptiSubscribe)

// With these it is better: nullptr where the library lacks them.
#define VRANK_CUPTI_OPTIONAL(X)        \
  X(cuptiActivityEnableAndDump)        \
  X(cuptiActivityEnableAllSyncRecords) \
  X(cuptiActivityEnableDriverApi)      \
  X(cuptiActivityEnableRuntimeApi)     \
  X(cuptiActivityFlushPeriod)          \
  X(cuptiGetGraphExecId)               \
  X(cuptiGetGraphNodeId)               \
  X(cuptiSetThreadIdType)              \
  X(cuptiSubscribe_v2)

struct CuptiLibrary {
  void* handle = nullptr;  // of dlopen
#define VRANK_CUPTI_FIELD(name) decltype(&::name) name = nullptr;
  VRANK_CUPTI_NEEDED(VRANK_CUPTI_FIELD)
  VRANK_CUPTI_OPTIONAL(VRANK_CUPTI_FIELD)
#undef VRANK_CUPTI_FIELD

  // Opens `path`, or the process's libcupti where that is empty (see options.h).
  // False with a sentence in *why.
  bool Load(const std::string& path, std::string* why);
  // CUPTI's words for a result: "CUPTI_ERROR_NOT_INITIALIZED".
  std::string Words(CUptiResult result) const;
};

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_CUPTI_CUPTI_LIBRARY_H_
