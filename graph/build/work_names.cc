#include "graph/build/work_names.h"

#include <algorithm>
#include <initializer_list>

namespace vrank::graph {
namespace {

bool BeginsWithAny(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::any_of(all.begin(), all.end(),
                     [&](std::string_view one) { return text.starts_with(one); });
}

bool HoldsAny(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::any_of(all.begin(), all.end(), [&](std::string_view one) {
    return text.find(one) != std::string_view::npos;
  });
}

}  // namespace

bool IsQuery(std::string_view function) {
  return BeginsWithAny(
      function, {"cudaEventQuery", "cudaStreamQuery", "cuEventQuery", "cuStreamQuery"});
}

bool IsKernelLaunch(std::string_view function) {
  return BeginsWithAny(function, {"cudaLaunchKernel", "cudaLaunchCooperativeKernel",
                                  "cuLaunchKernel", "cuLaunchCooperativeKernel"});
}

bool IsHostFunctionLaunch(std::string_view function) {
  return BeginsWithAny(function, {"cudaLaunchHostFunc", "cuLaunchHostFunc",
                                  "cudaStreamAddCallback", "cuStreamAddCallback"});
}

bool IsMemoryOperation(std::string_view function) {
  return BeginsWithAny(
      function, {"cuStreamWaitValue", "cuStreamWriteValue", "cuStreamBatchMemOp"});
}

bool IsGraphLaunch(std::string_view function) {
  return BeginsWithAny(function, {"cudaGraphLaunch", "cuGraphLaunch"});
}

bool IsCapture(std::string_view function, bool begins) {
  return begins
             ? BeginsWithAny(function,
                             {"cudaStreamBeginCapture", "cuStreamBeginCapture"})
             : BeginsWithAny(function, {"cudaStreamEndCapture", "cuStreamEndCapture"});
}

bool IsMatrixMultiply(std::string_view kernel, bool virtual_gpu) {
  if (virtual_gpu)
    return BeginsWithAny(kernel, {"cublas"});
  // Attention is made of CUTLASS's parts, too.
  return HoldsAny(kernel, {"gemm", "GEMM", "nvjet", "cutlass", "xmma"}) &&
         !HoldsAny(kernel, {"flash", "fmha"});
}

}  // namespace vrank::graph
