// What the NCCL stand-in said; see record_rows.h.

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "graph/trace/record_rows.h"

namespace vrank::graph {
namespace {

template <typename T>
TracedOperation OperationOf(const T& from, RawRows* rows) {
  TracedOperation operation;
  operation.correlation = from.correlation;
  operation.communicator = from.communicator;
  operation.stream = from.stream;
  operation.captured = Flag(from.record, trace::kCaptured) ? from.operation_id : 0;
  rows->operation_ids.push_back(from.operation_id);
  rows->operation_threads.push_back(from.thread);
  return operation;
}

}  // namespace

Fault Add(const trace::Collective& from, RawRows* rows) {
  if (from.operation > CollectiveKind::kScatter || from.type > ElementType::kTfloat32 ||
      from.reduction > Reduction::kPreMulSum)
    return fmt::format("there is no collective {} of type {} with reduction {}",
                       static_cast<int>(from.operation), static_cast<int>(from.type),
                       static_cast<int>(from.reduction));
  TracedOperation operation = OperationOf(from, rows);
  operation.call = {from.operation, from.type, from.reduction, from.root, from.count};
  rows->trace.operations.push_back(std::move(operation));
  return "";
}

Fault Add(const trace::Transfers& from, std::string_view tail, RawRows* rows) {
  if (from.count > tail.size() / sizeof(Transfer))
    return fmt::format("{} transfers do not fit into their record", from.count);
  TracedOperation operation = OperationOf(from, rows);
  operation.is_collective = false;
  operation.transfers.resize(from.count);
  if (from.count > 0)
    std::memcpy(operation.transfers.data(), tail.data(), from.count * sizeof(Transfer));
  rows->trace.operations.push_back(std::move(operation));
  return "";
}

Fault Add(const trace::Creation& from, RawRows* rows) {
  TracedNcclCall call;
  call.kind =
      from.parent == 0 ? TracedNcclCall::Kind::kInit : TracedNcclCall::Kind::kSplit;
  call.communicator = from.communicator;
  call.thread = from.thread;
  call.creation.parent = from.parent;
  call.creation.color = from.color;
  call.creation.key = from.key;
  call.creation.ranks = from.ranks;
  call.creation.rank = from.rank;
  std::memcpy(call.creation.unique_id.data(), from.unique_id, sizeof from.unique_id);
  call.start_ns = from.start_ns;
  call.end_ns = from.end_ns;
  call.told_size = from.told_size;
  call.told_index = from.told_index;
  rows->creation_names.push_back(
      {static_cast<uint32_t>(rows->trace.nccl_calls.size()), from.name});
  rows->trace.nccl_calls.push_back(std::move(call));
  return "";
}

Fault Add(const trace::Release& from, RawRows* rows) {
  if (from.release > ReleaseKind::kAbort)
    return fmt::format("there is no release of kind {}",
                       static_cast<uint32_t>(from.release));
  TracedNcclCall call;
  call.kind = TracedNcclCall::Kind::kRelease;
  call.communicator = from.communicator;
  call.thread = from.thread;
  call.release = from.release;
  call.start_ns = from.start_ns;
  call.end_ns = from.end_ns;
  rows->trace.nccl_calls.push_back(std::move(call));
  return "";
}

}  // namespace vrank::graph
