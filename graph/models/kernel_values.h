// Values of what kernels would have computed, from a file: none runs, and what the host
// reads of their results is zero unless a rule says otherwise.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_MODELS_KERNEL_VALUES_H_
#define VRANK_GRAPH_MODELS_KERNEL_VALUES_H_

#include <string>

#include <absl/status/statusor.h>

namespace vrank::graph {

// The rules of the file (kernel_values.proto) as the guests take them
// (virtual_gpu/core/value_policy.h): a line each, the bytes of one element in
// hexadecimal digits, a space, the pattern of the name. Errors name file and rule.
absl::StatusOr<std::string> ReadKernelValues(const std::string& path);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_KERNEL_VALUES_H_
