// See memory_changes.h.

#include "graph/build/memory_changes.h"

namespace vrank::graph {

void MemoryChanges::OfCall(uint32_t call) {
  for (const RowsByCall::Row& row : index_.memory.Of(call)) {
    const TracedMemory& memory = trace_.memory[row.row];
    if (!memory.device)
      continue;
    if (memory.release) {
      // Memory of a pool stays with the pool.
      if (pool_memory_.erase(memory.address) == 0)
        Change(blocks_.GiveBack(memory.address), MemoryOwner::kProgram, memory.time_ns);
    } else if (!memory.is_async) {
      Change(blocks_.Take(memory.address, memory.bytes), MemoryOwner::kProgram,
             memory.time_ns);
    }
  }
}

void MemoryChanges::OfCallInsideNccl(uint32_t call) {
  for (const RowsByCall::Row& row : index_.memory.Of(call)) {
    const TracedMemory& memory = trace_.memory[row.row];
    if (memory.device && !memory.is_async)
      Change(memory.release ? blocks_.GiveBack(memory.address)
                            : blocks_.Take(memory.address, memory.bytes),
             MemoryOwner::kCommunicator, memory.time_ns);
  }
}

void MemoryChanges::OrderPools(uint32_t call) {
  for (const RowsByCall::Row& row : index_.memory.Of(call)) {
    const TracedMemory& memory = trace_.memory[row.row];
    if (!memory.device || !memory.is_async)
      continue;
    StreamLanes::Stream* stream =
        streams_.Find(streams_.DefaultContext(), memory.stream);
    if (!memory.release) {
      pool_memory_[memory.address] = memory.bytes;
      lanes_.TakeRange(stream, memory.address, memory.address + memory.bytes);
      continue;
    }
    const auto taken = pool_memory_.find(memory.address);
    if (taken == pool_memory_.end())
      continue;
    lanes_.FreeRange(stream, memory.address, memory.address + taken->second);
    pool_memory_.erase(taken);
  }
}

template <class Which>
void MemoryChanges::ReserveWhere(Rows rows, Which which) {
  for (const RowsByCall::Row& row : rows) {
    if (which(trace_.reserves[row.row]))
      Reserve(trace_.reserves[row.row]);
  }
}

void MemoryChanges::TakeContext(Rows rows) {
  ReserveWhere(rows, [](const TracedReserve& row) {
    return row.owner == MemoryOwner::kContext && row.delta_bytes > 0;
  });
}

void MemoryChanges::GiveBackContext(Rows rows) {
  ReserveWhere(rows, [](const TracedReserve& row) {
    return row.owner == MemoryOwner::kContext && row.delta_bytes < 0;
  });
}

void MemoryChanges::ChangeContext(Rows rows) {
  ReserveWhere(rows, [](const TracedReserve& row) {
    return row.owner == MemoryOwner::kContext;
  });
}

void MemoryChanges::ReserveOthers(Rows rows) {
  ReserveWhere(rows, [](const TracedReserve& row) {
    return row.owner != MemoryOwner::kContext;
  });
}

void MemoryChanges::Change(int64_t delta, MemoryOwner owner, int64_t time_ns) {
  if (delta == 0)
    return;
  lanes_.Note(
      Op{.kind = OpKind::kMemory, .value = delta, .b = static_cast<uint32_t>(owner)});
  timeline_.SetLastAt(time_ns);
}

}  // namespace vrank::graph
