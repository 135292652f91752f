// Streams, events, launches and waits of the host, with their rows.

#include <gtest/gtest.h>

#include "tests/graph/build/traced_gpu_call.h"

namespace vrank::graph {

void TracedGpu::AddSync(SyncKind kind, void* stream, void* event) {
  TracedSync row;
  row.kind = kind;
  row.correlation = call_.correlation;
  row.context = kTracedContext;
  if (kind == SyncKind::kStream || kind == SyncKind::kStreamWait)
    row.stream = StreamNumber(stream);
  if (event != nullptr) {
    row.event = events_[event].number;
    row.event_sync_id = events_[event].sync_id;
  }
  row.end_ns = channel_.Now().nanoseconds();
  row.start_ns = wait_start_ns_ < 0 ? row.end_ns : wait_start_ns_;
  trace_.syncs.push_back(row);
}

TracedWork& TracedGpu::AddWork(WorkClass work, const std::string& name, void* stream) {
  TracedWork row;
  row.work = work;
  row.correlation = call_.correlation;
  row.context = kTracedContext;
  row.stream = StreamNumber(stream);
  row.name = name.empty() ? 0 : Name(name);
  for (uint64_t op = program_.size(); op-- > call_first_op_;)
    if (program_.op(op).launch != 0) {
      row.end_ns = lane_ends_[program_.op(op).lane];
      row.start_ns = row.end_ns - program_.op(op).value;
      break;
    }
  trace_.work.push_back(row);
  return trace_.work.back();
}

void TracedGpu::Work(const char* function, bool is_driver, void* stream, WorkClass work,
                     const std::string& name, const std::function<void()>& run) {
  CallScope call(this, function, is_driver);
  run();
  Consume();
  AddWork(work, name, stream);
}

void* TracedGpu::NewStream(bool blocking) {
  CallScope call(this, "cudaStreamCreateWithFlags");
  void* stream = nullptr;
  EXPECT_EQ(gpu_->CreateStream(blocking ? 0 : gpu::kStreamNonBlocking, 0, &stream),
            gpu::Error::kSuccess);
  stream_numbers_[stream] = ++last_stream_;
  TracedStream row;
  row.context = kTracedContext;
  row.stream = last_stream_;
  row.kind =
      blocking ? TracedStream::Kind::kBlocking : TracedStream::Kind::kNonBlocking;
  row.correlation = call_.correlation;
  trace_.streams.push_back(row);
  Consume();
  AddReserves(false, 0);
  return stream;
}

void TracedGpu::DestroyStream(void* stream) {
  CallScope call(this, "cudaStreamDestroy");
  TracedStream row;
  row.context = kTracedContext;
  row.stream = StreamNumber(stream);
  row.destroyed = true;
  row.correlation = call_.correlation;
  trace_.streams.push_back(row);
  EXPECT_EQ(gpu_->DestroyStream(stream), gpu::Error::kSuccess);
  Consume();
  AddReserves(false, 0);
}

void* TracedGpu::NewEvent() {
  CallScope call(this, "cudaEventCreate");
  void* event = nullptr;
  EXPECT_EQ(gpu_->CreateEvent(0, &event), gpu::Error::kSuccess);
  events_[event] = {++event_numbers_};
  return event;
}

void TracedGpu::DestroyEvent(void* event) {
  CallScope call(this, "cudaEventDestroy");
  events_.erase(event);
  EXPECT_EQ(gpu_->DestroyEvent(event), gpu::Error::kSuccess);
}

void TracedGpu::Launch(void* stream, uint32_t grid) {
  Work("cudaLaunchKernel", false, stream, WorkClass::kKernel, "_Z6kernelv", [&] {
    gpu::KernelLaunch launch;
    launch.kernel = gpu_->FindKernel("_Z6kernelv");
    launch.grid[0] = grid;
    launch.stream = stream;
    EXPECT_EQ(gpu_->LaunchKernel(launch), gpu::Error::kSuccess);
  });
}

void TracedGpu::Gemm(void* stream, uint64_t m) {
  Work("cuLaunchKernelEx", true, stream, WorkClass::kKernel, "cublasGemmEx", [&] {
    gpu::GemmLaunch launch;
    launch.name = "cublasGemmEx";
    launch.stream = stream;
    launch.m = launch.n = launch.k = m;
    EXPECT_EQ(gpu_->LaunchGemm(launch), gpu::Error::kSuccess);
  });
}

void TracedGpu::RecordEvent(void* event, void* stream) {
  CallScope call(this, "cudaEventRecord");
  EXPECT_EQ(gpu_->RecordEvent(event, stream), gpu::Error::kSuccess);
  events_[event].sync_id = ++last_sync_id_;
  trace_.event_records.push_back({call_.correlation, kTracedContext,
                                  StreamNumber(stream), events_[event].number,
                                  last_sync_id_});
}

void TracedGpu::WaitEvent(void* stream, void* event) {
  CallScope call(this, "cudaStreamWaitEvent");
  EXPECT_EQ(gpu_->StreamWaitEvent(stream, event), gpu::Error::kSuccess);
  AddSync(SyncKind::kStreamWait, stream, event);
}

void TracedGpu::SynchronizeEvent(void* event) {
  CallScope call(this, "cudaEventSynchronize");
  EXPECT_EQ(gpu_->SynchronizeEvent(event), gpu::Error::kSuccess);
  Consume();
  AddSync(SyncKind::kEvent, nullptr, event);
  AddReserves(false, 0);
}

void TracedGpu::SynchronizeStream(void* stream) {
  CallScope call(this, "cudaStreamSynchronize");
  EXPECT_EQ(gpu_->SynchronizeStream(stream), gpu::Error::kSuccess);
  Consume();
  AddSync(SyncKind::kStream, stream, nullptr);
  AddReserves(false, 0);
}

void TracedGpu::SynchronizeDevice() {
  CallScope call(this, "cudaDeviceSynchronize");
  EXPECT_EQ(gpu_->SynchronizeDevice(), gpu::Error::kSuccess);
  Consume();
  AddSync(SyncKind::kContext, nullptr, nullptr);
  AddReserves(false, 0);
}

bool TracedGpu::QueryResult(gpu::Error error, SyncKind kind, void* stream,
                            void* event) {
  const bool complete = error == gpu::Error::kSuccess;
  call_.result = complete ? 0 : 600;
  AddSync(kind, stream, event);
  return complete;
}

bool TracedGpu::QueryEvent(void* event) {
  CallScope call(this, "cudaEventQuery");
  return QueryResult(gpu_->QueryEvent(event), SyncKind::kEvent, nullptr, event);
}

bool TracedGpu::QueryStream(void* stream) {
  CallScope call(this, "cudaStreamQuery");
  return QueryResult(gpu_->QueryStream(stream), SyncKind::kStream, stream, nullptr);
}

}  // namespace vrank::graph
