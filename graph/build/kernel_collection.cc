#include "graph/build/kernel_collection.h"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "base/nccl_kernel.h"
#include "graph/build/device_gaps.h"

namespace vrank::graph {

absl::Status CollectKernels(const RankTrace& trace, KernelTable* table) {
  if (trace.session.virtual_gpu)
    return absl::InvalidArgumentError(
        fmt::format("trace '{}': it is of a virtual GPU, whose kernel times are a "
                    "model's; collect them from a trace of a real one",
                    trace.file));
  if (absl::Status status = table->CheckGpu(trace.session.gpu); !status.ok())
    return absl::Status(status.code(), fmt::format("trace '{}': {}", trace.file,
                                                   std::string(status.message())));
  std::set<uint32_t> of_nccl;
  for (const TracedOperation& operation : trace.operations)
    of_nccl.insert(operation.correlation);
  const std::vector<int64_t> gaps = DeviceGaps(trace);
  for (size_t i = 0; i < trace.work.size(); ++i) {
    const TracedWork& work = trace.work[i];
    if (work.work != WorkClass::kKernel || work.end_ns <= work.start_ns ||
        work.name >= trace.names.size() || of_nccl.count(work.correlation) != 0)
      continue;
    const std::string& name = trace.names[work.name];
    if (IsNcclKernel(name))
      continue;
    KernelTable::Key key;
    key.name = name;
    std::copy_n(work.grid, 3, key.grid.begin());
    std::copy_n(work.block, 3, key.block.begin());
    key.shared_bytes = work.shared_bytes;
    table->Add(key, work.end_ns - work.start_ns + gaps[i]);
  }
  const size_t folder = trace.file.rfind('/');
  table->AddSource(folder == std::string::npos ? trace.file
                                               : trace.file.substr(folder + 1));
  return absl::OkStatus();
}

}  // namespace vrank::graph
