// See program_facts.h.

#include "graph/replay/program_facts.h"

#include <algorithm>
#include <map>

#include "graph/program/pool.h"
#include "graph/replay/memory_account.h"

namespace vrank::graph {

RankResult FixedResult(const Program& program) {
  RankResult result;
  MemoryAccount memory;
  for (uint64_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    // Questions of helpers are no part of what a rank does.
    if (op.from_helper != 0) {
      result.ops += op.kind == OpKind::kReleaseCommunicator;
      continue;
    }
    ++result.ops;
    if (op.kind == OpKind::kMemory)
      memory.Apply(op);
  }
  result.memory_bytes = memory.bytes;
  result.peak_memory_bytes = memory.peak_bytes;
  result.peak_communicator_bytes = memory.peak_communicator_bytes;
  result.peak_context_bytes = memory.peak_context_bytes;
  return result;
}

std::vector<uint32_t> LastUses(const Program& program) {
  std::vector<uint32_t> last(program.size(), kNone);
  std::map<uint32_t, uint32_t> recorded;  // by token
  for (uint32_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    if (op.from_helper != 0)
      continue;
    if (op.kind == OpKind::kRecordToken)
      recorded[op.a] = i;
    if (op.kind != OpKind::kWaitToken && op.kind != OpKind::kHostWaitToken &&
        op.kind != OpKind::kQueryToken && op.kind != OpKind::kPollToken)
      continue;
    if (const auto at = recorded.find(op.a); at != recorded.end())
      last[at->second] = i;
  }
  return last;
}

std::vector<bool> ObservedRanges(
    const Program& program, const std::function<bool(const std::string&)>& observe) {
  std::vector<bool> observed(program.size());
  if (!observe)
    return observed;
  const std::vector<std::string>& names = program.details().names;
  std::vector<bool> wanted(names.size());
  for (size_t i = 0; i < names.size(); ++i)
    wanted[i] = observe(names[i]);
  for (uint64_t i = 0; i < program.size(); ++i) {
    const Op& op = program.op(i);
    observed[i] = (op.kind == OpKind::kRangeBegin || op.kind == OpKind::kRangeEnd) &&
                  op.from_helper == 0 && wanted[op.a];
  }
  return observed;
}

}  // namespace vrank::graph
