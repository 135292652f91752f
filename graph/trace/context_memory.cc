#include "graph/trace/context_memory.h"

#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/guest/context_memory.h"

namespace vrank::graph {
namespace {

// Default streams are part of their context.
bool HasMemory(const TracedStream& made) {
  return made.kind == TracedStream::Kind::kBlocking ||
         made.kind == TracedStream::Kind::kNonBlocking;
}

// The calls that make or destroy streams, by correlation. Memory is taken and given
// back as one ends: the call that makes a stream may have made the context, too.
std::unordered_map<uint32_t, const TracedCall*> CallsOfStreams(const RankTrace& trace) {
  std::unordered_map<uint32_t, const TracedCall*> calls;
  for (const TracedStream& stream : trace.streams)
    if (stream.correlation != 0)
      calls[stream.correlation] = nullptr;
  if (calls.empty())
    return calls;
  for (const TracedCall& call : trace.calls)
    if (const auto found = calls.find(call.correlation); found != calls.end())
      found->second = &call;
  return calls;
}

}  // namespace

void AddContextMemory(RankTrace* trace) {
  const uint64_t own = trace->session.context_bytes;
  if (own == 0)
    return;
  auto add = [trace](int64_t delta, uint32_t correlation, int64_t time_ns) {
    trace->reserves.push_back({.owner = MemoryOwner::kContext,
                               .delta_bytes = delta,
                               .correlation = correlation,
                               .time_ns = time_ns});
  };
  std::unordered_map<uint32_t, int64_t> held;  // by context
  for (const TracedContext& context : trace->contexts) {
    int64_t& bytes = held[context.context];
    if (!context.destroyed)
      bytes = static_cast<int64_t>(own + context.code_bytes);
    add(context.destroyed ? -bytes : bytes, context.correlation, context.time_ns);
  }
  constexpr auto kBytes = static_cast<int64_t>(kStreamBytes);
  const auto calls = CallsOfStreams(*trace);
  std::set<std::pair<uint32_t, uint32_t>> alive;  // context and stream
  for (const TracedStream& stream : trace->streams) {
    const auto found = calls.find(stream.correlation);
    if (found == calls.end() || found->second == nullptr)
      continue;
    const TracedCall& call = *found->second;
    const std::pair key(stream.context, stream.stream);
    // What ends a stream does not say its kind.
    if (stream.destroyed && alive.erase(key) == 1)
      add(-kBytes, stream.correlation, call.end_ns);
    else if (!stream.destroyed && HasMemory(stream) && alive.insert(key).second)
      add(kBytes, stream.correlation, call.end_ns);
  }
}

}  // namespace vrank::graph
