#include "virtual_gpu/core/graph_dot.h"

#include <cstdio>
#include <variant>

#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {
namespace {

const char* NameOf(GraphNodeType type) {
  switch (type) {
    case GraphNodeType::kKernel:
      return "KERNEL";
    case GraphNodeType::kCopy:
      return "MEMCPY";
    case GraphNodeType::kFill:
      return "MEMSET";
    case GraphNodeType::kHost:
      return "HOST";
    case GraphNodeType::kChild:
      return "GRAPH";
    case GraphNodeType::kEmpty:
      return "EMPTY";
    case GraphNodeType::kEventWait:
      return "EVENT_WAIT";
    case GraphNodeType::kEventRecord:
      return "EVENT_RECORD";
    case GraphNodeType::kAllocation:
      return "MEM_ALLOC";
    case GraphNodeType::kFree:
      return "MEM_FREE";
  }
  return "";
}

}  // namespace

Error PrintDot(const Graph& graph, const char* path) {
  FILE* const out = fopen(path, "w");
  if (out == nullptr)
    return Error::kOperatingSystem;
  fputs("digraph dot {\n", out);
  for (const auto& node : graph.nodes()) {
    const auto* kernel = std::get_if<KernelContent>(&node->content);
    fprintf(out, "  n%llu [label=\"%s%s%s\"];\n",
            static_cast<unsigned long long>(node->id), NameOf(node->type()),
            kernel == nullptr ? "" : "\\n",
            kernel == nullptr ? "" : kernel->launch.kernel->name.c_str());
    for (const GraphLink& link : node->after)
      fprintf(out, "  n%llu -> n%llu;\n", static_cast<unsigned long long>(node->id),
              static_cast<unsigned long long>(link.node->id));
  }
  fputs("}\n", out);
  return fclose(out) == 0 ? Error::kSuccess : Error::kOperatingSystem;
}

}  // namespace vrank::gpu
