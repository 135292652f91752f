// Traces of one rank, written call by call.

#ifndef VRANK_TESTS_GRAPH_BUILD_HAND_TRACE_H_
#define VRANK_TESTS_GRAPH_BUILD_HAND_TRACE_H_

#include <string>

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

// Stream 9 is a non-blocking one of context 1, and there from the start.
class HandTrace {
 public:
  explicit HandTrace(bool virtual_gpu) {
    trace.file = "hand.vtrace";
    trace.session.world_size = 1;
    trace.session.gpu = "h100";
    trace.session.virtual_gpu = virtual_gpu;
    TracedStream stream;
    stream.context = 1;
    stream.stream = 9;
    stream.kind = TracedStream::Kind::kNonBlocking;
    trace.streams.push_back(stream);
  }

  // Valid until the next one.
  TracedCall& Call(const std::string& function, int64_t start_ns, int64_t end_ns,
                   uint32_t thread = 0) {
    TracedCall call;
    call.function = Name(function);
    call.correlation = static_cast<uint32_t>(trace.calls.size() + 1);
    call.thread = thread;
    call.start_ns = start_ns;
    call.end_ns = end_ns;
    trace.calls.push_back(call);
    return trace.calls.back();
  }

  // The rows below are of the last call, unless their correlation is changed.
  TracedWork& Work(WorkClass work, int64_t start_ns, int64_t end_ns) {
    TracedWork row;
    row.work = work;
    row.correlation = Last();
    row.context = 1;
    row.stream = 9;
    row.name = work == WorkClass::kKernel ? Name("_Z6kernelv") : 0;
    row.start_ns = start_ns;
    row.end_ns = end_ns;
    trace.work.push_back(row);
    return trace.work.back();
  }
  TracedSync& Sync(SyncKind kind, int64_t start_ns, int64_t end_ns) {
    TracedSync row;
    row.kind = kind;
    row.correlation = Last();
    row.context = 1;
    row.stream = 9;
    row.start_ns = start_ns;
    row.end_ns = end_ns;
    trace.syncs.push_back(row);
    return trace.syncs.back();
  }
  TracedEventRecord& Record(uint32_t event, uint64_t sync_id) {
    trace.event_records.push_back({Last(), 1, 9, event, sync_id});
    return trace.event_records.back();
  }

  uint32_t Name(const std::string& text) {
    for (uint32_t i = 0; i < trace.names.size(); ++i)
      if (trace.names[i] == text)
        return i;
    trace.names.push_back(text);
    return static_cast<uint32_t>(trace.names.size() - 1);
  }

  RankTrace trace;

 private:
  uint32_t Last() const { return static_cast<uint32_t>(trace.calls.size()); }
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_BUILD_HAND_TRACE_H_
