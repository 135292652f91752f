#include "base/communication_kernel.h"

#include <algorithm>
#include <cctype>

#include "base/nccl_kernel.h"

namespace vrank {
namespace {

constexpr std::string_view kUnknown = "communication";

// "ncclDevKernel_AllReduce_Sum_f32(x)" -> "nccldevkernelallreducesumfx".
std::string Letters(std::string_view text) {
  std::string letters;
  for (const char c : text)
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      letters.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return letters;
}

// A demangled name before its template arguments and parameters, which may name types
// of libraries.
std::string Head(std::string_view kernel) {
  if (kernel.starts_with("_Z"))
    return std::string(kernel);
  static constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string head(kernel);
  for (size_t at; (at = head.find(kAnonymous)) != std::string::npos;)
    head.erase(at, kAnonymous.size());
  return head.substr(0, head.find_first_of("<("));
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool Communicates(std::string_view kernel) {
  if (IsNcclKernel(kernel))
    return true;
  if (Contains(kernel, "get_dispatch_layout"))
    return false;
  static constexpr std::string_view kParts[] = {
      "mscclKernel",
      "mscclpp",
      "cross_device_reduce_",
      "reduce_scatter_cross_device_store",
      "oneShotAllReduceKernel",
      "twoShotAllReduceKernel",
      "hybridCubeMeshAllReduceKernel",
      "one_shot_all_reduce_kernel",
      "two_shot_all_reduce_kernel",
      "allreduce_fusion_kernel",
      "multimem_",
      "deep_ep",
      "userbuffers_",
      "nvshmem",
  };
  const std::string head = Head(kernel);
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return Contains(head, part); });
}

struct Row {
  std::string_view letters, operation;
};
// Longer words first where one holds another.
constexpr Row kRows[] = {
    {"reducescatter", "reduce_scatter"},
    {"allreduce", "all_reduce"},
    {"crossdevicereduce", "all_reduce"},
    {"allgather", "all_gather"},
    {"alltoall", "all_to_all"},
    {"dispatch", "all_to_all"},  // DeepEP's pair
    {"combine", "all_to_all"},
    {"broadcast", "broadcast"},
    {"sendrecv", "send_receive"},
    {"pushsendrecv", "send_receive"},
    {"pushsend", "send"},
    {"pushrecv", "receive"},
    {"putsignal", "send"},
    {"waitsignal", "receive"},
    {"reduce", "reduce"},
};

constexpr std::string_view kOperations[] = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
    "broadcast",  "reduce",     "gather",         "scatter",
    "send",       "receive",    "send_receive",   kUnknown};

// What " [all_reduce]" at the end states.
std::optional<std::string_view> StatedOperation(std::string_view kernel) {
  const size_t begin = kernel.rfind(" [");
  if (begin == std::string_view::npos || !kernel.ends_with(']'))
    return std::nullopt;
  const std::string_view stated = kernel.substr(begin + 2, kernel.size() - begin - 3);
  for (const std::string_view operation : kOperations)
    if (stated == operation)
      return operation;
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> CommunicationOperation(std::string_view kernel) {
  if (const auto stated = StatedOperation(kernel))
    return stated;
  if (!Communicates(kernel))
    return std::nullopt;
  const std::string letters = Letters(Head(kernel));
  for (const Row& row : kRows)
    if (Contains(letters, row.letters))
      return row.operation;
  return kUnknown;
}

std::string WithOperation(const std::string& kernel, std::string_view operation) {
  if (CommunicationOperation(kernel) == operation)
    return kernel;
  return kernel + " [" + std::string(operation) + "]";
}

}  // namespace vrank
