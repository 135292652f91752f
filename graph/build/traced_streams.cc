// See traced_streams.h.

#include "graph/build/traced_streams.h"

#include <map>

namespace vrank::graph {

StreamLanes::Stream* TracedStreams::Find(uint32_t context, uint32_t stream) {
  bool made = false;
  Stream* found = lanes_.Find(context, stream, &made);
  if (made && !found->legacy)
    losses_.Count(BuildLoss::kStreamOfUnknownKind);
  return found;
}

uint32_t TracedStreams::DefaultContext() const {
  if (!trace_.work.empty())
    return trace_.work.front().context;
  return trace_.streams.empty() ? 1 : trace_.streams.front().context;
}

void TracedStreams::CreateFirst() {
  for (const TracedStream& stream : trace_.streams)
    if (!stream.destroyed && stream.correlation == 0)
      lanes_.Create(stream.context, stream.stream, stream.kind);
}

void TracedStreams::Create(uint32_t call) {
  for (const RowsByCall::Row& row : index_.streams.Of(call)) {
    const TracedStream& stream = trace_.streams[row.row];
    if (!stream.destroyed)
      lanes_.Create(stream.context, stream.stream, stream.kind);
  }
}

// By lane, as the virtual GPU does where one call destroys them all.
void TracedStreams::Destroy(uint32_t call) {
  std::map<uint32_t, const TracedStream*> by_lane;
  for (const RowsByCall::Row& row : index_.streams.Of(call)) {
    const TracedStream& stream = trace_.streams[row.row];
    if (stream.destroyed && lanes_.Has(stream.context, stream.stream))
      by_lane[Find(stream.context, stream.stream)->lane] = &stream;
  }
  for (const auto& [lane, stream] : by_lane)
    lanes_.Destroy(stream->context, stream->stream);
}

}  // namespace vrank::graph
