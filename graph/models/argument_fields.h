// Numbers inside the parameters of a launch, which cost files name: a field of a
// structure by value, the sum of an array of them, the elements that blocks of a launch
// over lists of tensors work on, the share of an operand that is not broadcast
// (kernel_costs.proto).
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_MODELS_ARGUMENT_FIELDS_H_
#define VRANK_GRAPH_MODELS_ARGUMENT_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/models/kernel_costs.pb.h"

namespace vrank::graph {

struct ArgumentField {
  std::string name;
  std::variant<KernelField, KernelChunks, KernelOperand> what;
};

// The fields, chunks and operands of an entry. An error names what is missing or named
// twice.
absl::StatusOr<std::vector<ArgumentField>> FieldsOf(const KernelCostEntry& entry);

// The value in a launch with these parameters (laid out as the kernel sees them) and
// this grid; nullopt where it lies outside of them.
std::optional<double> ReadField(const ArgumentField& field,
                                std::span<const std::byte> parameters,
                                const uint32_t grid[3]);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_ARGUMENT_FIELDS_H_
