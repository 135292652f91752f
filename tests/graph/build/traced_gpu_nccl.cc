// Communicators and what they do, with their rows.

#include <utility>

#include <gtest/gtest.h>

#include "tests/graph/build/traced_gpu_call.h"

namespace vrank::graph {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

}  // namespace

uint32_t TracedGpu::InitCommunicator(uint32_t ranks, uint32_t rank) {
  TracedNcclCall row;
  row.start_ns = channel_.Now().nanoseconds();
  protocol::CommInit record{};
  record.record.kind = protocol::RecordKind::kCommInit;
  record.local_members = 1;
  record.communicator = row.communicator = ++communicators_;
  record.ranks = row.creation.ranks = row.told_size = ranks;
  record.rank = row.creation.rank = row.told_index = rank;
  call_first_op_ = program_.size();
  Channel& channel = channel_;
  channel.Ask(record);
  gpu_->libraries().Reserve(0, 5 * kMiB, MemoryOwner::kCommunicator);
  Consume();
  row.end_ns = channel_.Now().nanoseconds();
  trace_.nccl_calls.push_back(row);
  trace_.reserves.push_back({MemoryOwner::kCommunicator, static_cast<int64_t>(6 * kMiB),
                             0, row.end_ns, row.communicator});
  return row.communicator;
}

uint32_t TracedGpu::SplitCommunicator(uint32_t parent, int32_t color) {
  TracedNcclCall row;
  row.kind = TracedNcclCall::Kind::kSplit;
  row.start_ns = channel_.Now().nanoseconds();
  protocol::CommSplit record{};
  record.record.kind = protocol::RecordKind::kCommSplit;
  record.parent = row.creation.parent = parent;
  record.communicator = row.communicator = ++communicators_;
  record.color = row.creation.color = color;
  row.told_size = color == protocol::kNoColor ? 0 : 2;
  Channel& channel = channel_;
  channel.Ask(record);
  Consume();
  row.end_ns = channel_.Now().nanoseconds();
  trace_.nccl_calls.push_back(row);
  return row.communicator;
}

void TracedGpu::ReleaseCommunicator(uint32_t communicator) {
  Sleep(1);  // a moment of its own: the release itself takes none
  TracedNcclCall row;
  row.kind = TracedNcclCall::Kind::kRelease;
  row.release = ReleaseKind::kDestroy;
  row.communicator = communicator;
  row.start_ns = channel_.Now().nanoseconds();
  protocol::CommRelease record{};
  record.record.kind = protocol::RecordKind::kCommRelease;
  record.communicator = communicator;
  record.release = ReleaseKind::kDestroy;
  Channel& channel = channel_;
  channel.Ask(record);
  Consume();
  row.end_ns = channel_.Now().nanoseconds();
  trace_.nccl_calls.push_back(row);
  Sleep(1);
}

void TracedGpu::Collective(uint32_t communicator, uint64_t count, void* stream) {
  Sleep(5000);  // what the call costs before it launches
  protocol::Collective record{};
  record.record.kind = protocol::RecordKind::kCollective;
  record.lane = Lane(stream);
  record.communicator = communicator;
  record.count = count;
  record.type = ElementType::kFloat32;
  Work("cuLaunchKernelEx", true, stream, WorkClass::kKernel, "ncclDevKernel", [&] {
    gpu_->libraries().BeginWork({0, record.lane});
    Channel& channel = channel_;
    channel.Emit(record);
    gpu_->libraries().EndWork({0, record.lane});
  });
  TracedOperation row;
  row.correlation = correlation_;
  row.communicator = communicator;
  row.stream = StreamNumber(stream);
  row.call.count = count;
  row.call.type = ElementType::kFloat32;
  trace_.operations.push_back(row);
}

void TracedGpu::Transfers(uint32_t communicator, std::vector<Transfer> transfers,
                          void* stream) {
  Sleep(5000);
  protocol::PointToPoint record{};
  record.record.kind = protocol::RecordKind::kPointToPoint;
  record.lane = Lane(stream);
  record.communicator = communicator;
  record.count = static_cast<uint32_t>(transfers.size());
  Work("cuLaunchKernelEx", true, stream, WorkClass::kKernel, "ncclDevKernel", [&] {
    gpu_->libraries().BeginWork({0, record.lane});
    Channel& channel = channel_;
    channel.Emit(record, transfers.data(), transfers.size() * sizeof(Transfer));
    gpu_->libraries().EndWork({0, record.lane});
  });
  TracedOperation row;
  row.correlation = correlation_;
  row.communicator = communicator;
  row.stream = StreamNumber(stream);
  row.is_collective = false;
  row.transfers = std::move(transfers);
  trace_.operations.push_back(row);
}

}  // namespace vrank::graph
