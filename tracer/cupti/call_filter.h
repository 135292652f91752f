// Which calls of the CUDA runtime and driver are worth a record.
//
// Programs call cudaGetDevice and its like by the thousand, and every record costs
// time. What is kept is what becomes a node of the execution graph: work, events,
// streams, waits, memory. Host time spent in other calls is not lost; it is part of the
// gap before the next one.
//
// Thread rule: plain functions.

#ifndef VRANK_TRACER_CUPTI_CALL_FILTER_H_
#define VRANK_TRACER_CUPTI_CALL_FILTER_H_

#include <string_view>

namespace vrank::tracer {

// "cudaLaunchKernel_v7000" -> "cudaLaunchKernel", "cuMemAlloc_v2" -> "cuMemAlloc",
// "cudaMemcpy_ptds_v7000" -> "cudaMemcpy_ptds", "cuMemcpyHtoD_v2_ptds" ->
// "cuMemcpyHtoD_v2_ptds": a version at the end is CUPTI's or the header's, not the
// program's word.
std::string_view WithoutVersion(std::string_view function);

// `function`: as CUPTI names it, with or without a version.
bool IsWorthARecord(std::string_view function);

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_CUPTI_CALL_FILTER_H_
