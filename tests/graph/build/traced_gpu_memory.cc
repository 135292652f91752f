// Memory: allocations, copies and fills, with their rows.

#include <gtest/gtest.h>

#include "tests/graph/build/traced_gpu_call.h"

namespace vrank::graph {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

}  // namespace

// Memory that the call's records take, but for what its own allocation does.
void TracedGpu::AddReserves(bool skip_account, int64_t account) {
  for (uint64_t index = call_first_op_; index < program_.size(); ++index) {
    const Op& op = program_.op(index);
    if (op.kind != OpKind::kMemory)
      continue;
    if (skip_account && op.value == account) {
      skip_account = false;
      continue;
    }
    TracedReserve row;
    row.owner = static_cast<MemoryOwner>(op.b);
    row.delta_bytes = op.value;
    row.correlation = call_.correlation;
    row.time_ns = channel_.Now().nanoseconds();
    trace_.reserves.push_back(row);
  }
}

void* TracedGpu::Allocate(uint64_t bytes) {
  CallScope call(this, "cudaMalloc");
  void* address = nullptr;
  EXPECT_EQ(gpu_->Allocate(bytes, &address), gpu::Error::kSuccess);
  allocations_[address] = bytes;
  TracedMemory row;
  row.correlation = call_.correlation;
  row.address = reinterpret_cast<uint64_t>(address);
  row.bytes = bytes;
  row.time_ns = channel_.Now().nanoseconds();
  trace_.memory.push_back(row);
  return address;
}

void TracedGpu::Free(void* address) {
  CallScope call(this, "cudaFree");
  EXPECT_EQ(gpu_->Free(address), gpu::Error::kSuccess);
  Consume();
  AddSync(SyncKind::kContext, nullptr, nullptr);
  const uint64_t bytes = allocations_[address];
  allocations_.erase(address);
  TracedMemory row;
  row.release = true;
  row.correlation = call_.correlation;
  row.address = reinterpret_cast<uint64_t>(address);
  row.time_ns = channel_.Now().nanoseconds();
  trace_.memory.push_back(row);
  // What the allocation gives back is no pool's: pools have larger pieces.
  const uint64_t rounded = (bytes + 2 * kMiB - 1) / (2 * kMiB) * 2 * kMiB;
  AddReserves(bytes != 0, -static_cast<int64_t>(rounded));
}

void* TracedGpu::AllocateAsync(uint64_t bytes, void* stream) {
  CallScope call(this, "cudaMallocAsync");
  void* address = nullptr;
  EXPECT_EQ(gpu_->AllocateAsync(bytes, nullptr, stream, &address),
            gpu::Error::kSuccess);
  Consume();
  allocations_[address] = 0;
  TracedMemory row;
  row.is_async = true;
  row.correlation = call_.correlation;
  row.stream = StreamNumber(stream);
  row.address = reinterpret_cast<uint64_t>(address);
  row.bytes = bytes;
  row.time_ns = channel_.Now().nanoseconds();
  trace_.memory.push_back(row);
  AddReserves(false, 0);
  return address;
}

void TracedGpu::FreeAsync(void* address, void* stream) {
  CallScope call(this, "cudaFreeAsync");
  EXPECT_EQ(gpu_->FreeAsync(address, stream), gpu::Error::kSuccess);
  TracedMemory row;
  row.release = row.is_async = true;
  row.correlation = call_.correlation;
  row.stream = StreamNumber(stream);
  row.address = reinterpret_cast<uint64_t>(address);
  row.time_ns = channel_.Now().nanoseconds();
  trace_.memory.push_back(row);
}

void* TracedGpu::AllocateHost(uint64_t bytes) {
  CallScope call(this, "cudaHostAlloc");
  void* address = nullptr;
  EXPECT_EQ(gpu_->AllocateHost(bytes, 0, &address), gpu::Error::kSuccess);
  return address;
}

void TracedGpu::Copy(void* to, const void* from, uint64_t bytes, uint32_t cupti_kind,
                     bool asynchronous, void* stream) {
  CallScope call(this, asynchronous ? "cudaMemcpyAsync" : "cudaMemcpy");
  gpu::CopyRequest request{.to = to, .from = from, .row_bytes = bytes};
  request.stream = stream;
  request.asynchronous = asynchronous;
  EXPECT_EQ(gpu_->Copy(request), gpu::Error::kSuccess);
  Consume();
  TracedWork& row = AddWork(WorkClass::kCopy, "", stream);
  row.bytes = bytes;
  row.copy_kind = cupti_kind;
  if (wait_start_ns_ >= 0 && options_.sync_rows_of_copies)
    AddSync(SyncKind::kStream, stream, nullptr);
  AddReserves(false, 0);
}

void TracedGpu::Fill(void* to, uint64_t bytes, void* stream) {
  Work("cudaMemsetAsync", false, stream, WorkClass::kMemset, "", [&] {
    gpu::FillRequest request;
    request.to = to;
    request.elements = bytes;
    request.stream = stream;
    request.asynchronous = true;
    EXPECT_EQ(gpu_->Fill(request), gpu::Error::kSuccess);
  });
}

}  // namespace vrank::graph
