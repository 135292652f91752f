// What names of CUDA calls and kernels say.
//
// Only where a trace has no better word: a launch without a kernel, a query without a
// record, a matrix multiply among kernels.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_BUILD_WORK_NAMES_H_
#define VRANK_GRAPH_BUILD_WORK_NAMES_H_

#include <string_view>

namespace vrank::graph {

// Calls of the runtime or driver; version suffixes ("_v7000", "_ptsz") do not matter.
bool IsQuery(std::string_view function);
bool IsKernelLaunch(std::string_view function);
bool IsHostFunctionLaunch(std::string_view function);
bool IsMemoryOperation(std::string_view function);
bool IsGraphLaunch(std::string_view function);

// A stream's capture begins or ends.
bool IsCapture(std::string_view function, bool begins);

// A kernel of cuBLAS, CUTLASS or their like, for breakdowns. On the virtual GPU the API
// functions stand for them ("cublasGemmEx"), and for nothing else.
bool IsMatrixMultiply(std::string_view kernel, bool virtual_gpu);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_WORK_NAMES_H_
