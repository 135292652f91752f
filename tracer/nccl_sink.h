// What the NCCL stand-in says of its operations, written into the trace.
//
// Thread rule: as NcclTrace.

#ifndef VRANK_TRACER_NCCL_SINK_H_
#define VRANK_TRACER_NCCL_SINK_H_

#include <atomic>

#include "base/guest/nccl_trace.h"
#include "tracer/tracer.h"

namespace vrank::tracer {

class NcclSink final : public NcclTrace {
 public:
  explicit NcclSink(Tracer* tracer) : tracer_(tracer) {}

  void BeginCollective(const protocol::Collective& call, bool captured) override;
  void BeginTransfers(const protocol::PointToPoint& group,
                      const protocol::Transfer* transfers, bool captured) override;
  void EndOperation() override;
  void BeginHostCall() override;
  void EndInit(const protocol::CommInit& call, const char* name) override;
  void EndSplit(const protocol::CommSplit& call, const char* name, uint32_t size,
                uint32_t index) override;
  void EndRelease(const protocol::CommRelease& call) override;
  void Reserve(uint32_t communicator, int64_t delta_bytes) override;

 private:
  // A new operation's id, pushed for the launch that follows, or of the nodes that are
  // made next; 0 where not tracing.
  uint64_t BeginOperation(bool captured);
  void AppendCreation(trace::Creation* creation, const char* name);

  Tracer* const tracer_;
  std::atomic<uint64_t> operations_ = 0;
};

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_NCCL_SINK_H_
