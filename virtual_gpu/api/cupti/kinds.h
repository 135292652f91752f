// The kinds of activity: which are modelled, and what CUPTI answers for the others.
//
// Thread rule: pure functions, except that a refusal is said once.

#ifndef VRANK_VIRTUAL_GPU_API_CUPTI_KINDS_H_
#define VRANK_VIRTUAL_GPU_API_CUPTI_KINDS_H_

#include <cupti.h>

namespace vrank::cupti {

// CUPTI_SUCCESS for kinds that are modelled. CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED
// for those that CUDA 13.0 removed. Otherwise CUPTI_ERROR_INVALID_KIND ("if the
// activity kind is not supported"); the kinds that NVIDIA's library has are then also
// named on stderr, for `function`.
CUptiResult CheckKind(const char* function, CUpti_ActivityKind kind);

// Whether records of the kind belong to a context, so that they can be chosen for one.
bool BelongsToContext(CUpti_ActivityKind kind);

}  // namespace vrank::cupti

#endif  // VRANK_VIRTUAL_GPU_API_CUPTI_KINDS_H_
