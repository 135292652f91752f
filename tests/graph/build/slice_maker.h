// Slices by hand: a rank's NCCL calls and collectives as a trace shows them.

#ifndef VRANK_TESTS_GRAPH_BUILD_SLICE_MAKER_H_
#define VRANK_TESTS_GRAPH_BUILD_SLICE_MAKER_H_

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

class SliceMaker {
 public:
  SliceMaker(int32_t rank, int32_t world_size, const std::string& layout = "") {
    trace.file = fmt::format("rank{:06}.vtrace", rank);
    trace.session.rank = rank;
    trace.session.world_size = world_size;
    trace.session.layout = layout;
    trace.session.gpu = "h100";
    trace.session.virtual_gpu = true;
    trace.session.command = "trainer";
    trace.session.program_fingerprint = "f00d";
    trace.names = {"", "cuLaunchKernelEx", "cudaStreamSynchronize", "ncclDevKernel"};
    TracedStream stream;
    stream.context = 1;
    stream.stream = 9;
    stream.kind = TracedStream::Kind::kNonBlocking;
    trace.streams.push_back(stream);
  }

  // Returns the communicator's number.
  uint32_t Init(uint32_t size, uint32_t index, uint8_t id = 1) {
    TracedNcclCall call = Nccl(TracedNcclCall::Kind::kInit, ++numbers_, size, index);
    call.creation.ranks = size;
    call.creation.rank = index;
    call.creation.unique_id[0] = id;
    trace.nccl_calls.push_back(call);
    return numbers_;
  }
  uint32_t Split(uint32_t parent, int32_t color, int32_t key, uint32_t size,
                 uint32_t index) {
    TracedNcclCall call = Nccl(TracedNcclCall::Kind::kSplit, ++numbers_, size, index);
    call.creation.parent = parent;
    call.creation.color = color;
    call.creation.key = key;
    trace.nccl_calls.push_back(call);
    return numbers_;
  }
  // Device memory that the latest communicator takes.
  void Reserve(uint32_t communicator, int64_t bytes) {
    TracedReserve reserve;
    reserve.owner = MemoryOwner::kCommunicator;
    reserve.delta_bytes = bytes;
    reserve.time_ns = trace.nccl_calls.back().start_ns;
    reserve.communicator = communicator;
    trace.reserves.push_back(reserve);
  }
  void AllReduce(uint32_t communicator, uint64_t count) {
    Collective(CollectiveKind::kAllReduce, communicator, count);
  }
  void Collective(CollectiveKind kind, uint32_t communicator, uint64_t count) {
    TracedOperation operation = Operation(communicator);
    operation.call.operation = kind;
    operation.call.count = count;
    operation.call.type = ElementType::kFloat32;
    trace.operations.push_back(operation);
  }
  void Transfers(uint32_t communicator, std::vector<Transfer> transfers) {
    TracedOperation operation = Operation(communicator);
    operation.is_collective = false;
    operation.transfers = std::move(transfers);
    trace.operations.push_back(operation);
  }
  void Synchronize() {
    TracedCall call = Call(2);
    TracedSync sync;
    sync.kind = SyncKind::kStream;
    sync.correlation = call.correlation;
    sync.context = 1;
    sync.stream = 9;
    sync.start_ns = sync.end_ns = call.end_ns;
    trace.syncs.push_back(sync);
  }

  RankTrace trace;

 private:
  TracedNcclCall Nccl(TracedNcclCall::Kind kind, uint32_t number, uint32_t size,
                      uint32_t index) {
    TracedNcclCall call;
    call.kind = kind;
    call.communicator = number;
    call.told_size = size;
    call.told_index = index;
    call.start_ns = now_ += 100;
    call.end_ns = now_ += 1000;
    return call;
  }
  TracedCall Call(uint32_t function) {
    TracedCall call;
    call.function = function;
    call.correlation = ++correlation_;
    call.start_ns = now_;
    call.end_ns = now_ += 50;
    trace.calls.push_back(call);
    return call;
  }
  TracedOperation Operation(uint32_t communicator) {
    const TracedCall call = Call(1);
    TracedWork work;
    work.correlation = call.correlation;
    work.context = 1;
    work.stream = 9;
    work.name = 3;
    work.start_ns = call.end_ns + 10;
    work.end_ns = call.end_ns + 500;
    trace.work.push_back(work);
    TracedOperation operation;
    operation.correlation = call.correlation;
    operation.communicator = communicator;
    operation.stream = 9;
    return operation;
  }

  int64_t now_ = 0;
  uint32_t correlation_ = 0, numbers_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_BUILD_SLICE_MAKER_H_
