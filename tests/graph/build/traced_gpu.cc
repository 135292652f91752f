#include "tests/graph/build/traced_gpu.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

constexpr int64_t kLatencyNs = 2000;
constexpr uint32_t kContext = 1;
constexpr uint64_t kMiB = uint64_t{1} << 20;

}  // namespace

namespace {

// The fake channel numbers slots on and on; an emulator has few.
template <typename T>
void ReuseSlot(std::vector<unsigned char>* bytes) {
  T record;
  std::memcpy(static_cast<void*>(&record), bytes->data(), sizeof record);
  if (record.slot != protocol::kNoSlot)
    record.slot %= protocol::kAnswerSlots;
  std::memcpy(bytes->data(), &record, sizeof record);
}

void ReuseSlotOf(protocol::RecordKind kind, std::vector<unsigned char>* bytes) {
  using protocol::RecordKind;
  switch (kind) {
    case RecordKind::kHostWaitToken:
    case RecordKind::kHostWaitLane:
      return ReuseSlot<protocol::HostWait>(bytes);
    case RecordKind::kHostQuery:
      return ReuseSlot<protocol::HostQuery>(bytes);
    case RecordKind::kPollUntil:
      return ReuseSlot<protocol::PollUntil>(bytes);
    case RecordKind::kCommInit:
      return ReuseSlot<protocol::CommInit>(bytes);
    case RecordKind::kCommSplit:
      return ReuseSlot<protocol::CommSplit>(bytes);
    case RecordKind::kCommRelease:
      return ReuseSlot<protocol::CommRelease>(bytes);
    case RecordKind::kFetchPayload:
      return ReuseSlot<protocol::FetchPayload>(bytes);
    default:
      return;
  }
}

}  // namespace

// Lengths that differ, and are no multiples of host costs.
class TracedGpu::Pricer : public emulator::WorkPricer {
 public:
  absl::StatusOr<uint32_t> DefineKernel(const std::string&) override { return next_++; }
  absl::StatusOr<WorkCost> Kernel(uint32_t, const protocol::Kernel& launch,
                                  std::span<const std::byte>) override {
    return WorkCost{1 + 977 * static_cast<int64_t>(launch.grid[0])};
  }
  WorkCost Gemm(const protocol::Gemm& gemm) override {
    return WorkCost{3 + 1013 * static_cast<int64_t>(gemm.m)};
  }
  WorkCost Copy(const protocol::Copy& copy) override {
    return WorkCost{5 + static_cast<int64_t>(copy.bytes / 64)};
  }
  WorkCost Memset(const protocol::Memset& memset) override {
    return WorkCost{7 + static_cast<int64_t>(memset.bytes / 128)};
  }

 private:
  uint32_t next_ = 0;
};

class TracedGpu::Sink : public emulator::DecoderSink {
 public:
  void OnQuestion(int32_t, uint64_t, const emulator::Question&) override {}
  absl::Status OnPayload(int32_t, const protocol::Payload&,
                         std::span<const std::byte>) override {
    return absl::OkStatus();
  }
  absl::Status OnCollective(int32_t, uint32_t, const CollectiveCall&) override {
    return absl::OkStatus();
  }
  absl::Status OnTransfers(int32_t, uint32_t, std::span<const Transfer>) override {
    return absl::OkStatus();
  }
  void OnRelease(int32_t, uint32_t) override {}
  void OnLoss(int32_t, uint32_t, const std::string&, uint64_t) override {}
};

// One call: opens its row and closes it.
struct TracedGpu::CallScope {
  CallScope(TracedGpu* gpu, const char* function, bool is_driver = false) : gpu(gpu) {
    gpu->call_ = {};
    gpu->call_.function = gpu->Name(function);
    gpu->call_.is_driver = is_driver;
    gpu->call_.correlation = ++gpu->correlation_;
    gpu->call_.start_ns = gpu->channel_.Now().nanoseconds();
    gpu->wait_start_ns_ = gpu->queue_start_ns_ = -1;
    gpu->call_first_op_ = gpu->program_.size();
  }
  ~CallScope() {
    gpu->Consume();
    gpu->call_.end_ns = gpu->channel_.Now().nanoseconds();
    if (gpu->queue_start_ns_ >= 0)
      gpu->trace_.overheads.push_back({TracedOverhead::Kind::kLaunchQueueFull,
                                       gpu->call_.correlation, 0, gpu->queue_start_ns_,
                                       gpu->queue_end_ns_});
    gpu->trace_.calls.push_back(gpu->call_);
  }
  TracedGpu* gpu;
};

TracedGpu::TracedGpu(Options options)
    : options_(options),
      gpu_(std::make_unique<gpu::ProcessGpu>(&channel_)),
      pricer_(std::make_unique<Pricer>()),
      sink_(std::make_unique<Sink>()),
      decoder_(std::make_unique<emulator::RecordDecoder>(0, &program_, pricer_.get(),
                                                         sink_.get())) {
  channel_.on_ask = [this](const FakeChannel::Written& question) {
    return OnAsk(question);
  };
  for (const std::string name :
       {"_Z6kernelv", "cublasGemmEx", "iteration", "forward"}) {
    struct {
      protocol::DefineName define{};
      char text[24] = {};
    } record;
    record.define.record.kind = protocol::RecordKind::kDefineName;
    record.define.record.size = sizeof record;
    record.define.name = channel_.Name(name);
    record.define.length = static_cast<uint32_t>(name.size());
    std::copy(name.begin(), name.end(), record.text);
    EXPECT_TRUE(decoder_->Decode(record.define.record).ok());
  }
  trace_.file = "rendered";
  trace_.session.virtual_gpu = true;
  trace_.session.world_size = 1;
  EXPECT_EQ(gpu_->SetCurrentDevice(-1), gpu::Error::kSuccess);
  CallScope call(this, "cudaFree");
  EXPECT_EQ(gpu_->EnsureContext(0), gpu::Error::kSuccess);
  Consume();
  AddReserves(false, 0);
}

TracedGpu::~TracedGpu() = default;

uint32_t TracedGpu::Name(const std::string& text) {
  const auto [name, is_new] =
      names_.emplace(text, static_cast<uint32_t>(trace_.names.size()));
  if (is_new)
    trace_.names.push_back(text);
  return name->second;
}

uint32_t TracedGpu::Lane(void* stream) {
  VirtualGpu::Stream found{};
  EXPECT_TRUE(gpu_->FindStream(stream, &found));
  return found.lane;
}

// CUPTI's numbers: 7 for the legacy default stream, never reused ones for the others.
uint32_t TracedGpu::StreamNumber(void* stream) {
  return stream == nullptr ? 7 : stream_numbers_.at(stream);
}

// ----- Time -----------------------------------------------------------------------

void TracedGpu::RaiseHost(int64_t to) {
  const int64_t now = channel_.Now().nanoseconds();
  if (to <= now)
    return;
  waited_ns_[channel_.records().size()] += to - now;
  channel_.SetNow(TimePoint::FromNanoseconds(to));
}

void TracedGpu::Consume() {
  const std::vector<FakeChannel::Written> records = channel_.records();
  for (; consumed_ < records.size(); ++consumed_) {
    std::vector<unsigned char> bytes = records[consumed_].bytes;
    protocol::Record header;
    std::memcpy(&header, bytes.data(), sizeof header);
    // The fake channel counts waits as host time.
    if (const auto waited = waited_ns_.find(consumed_); waited != waited_ns_.end())
      header.host_ns -= waited->second;
    std::memcpy(bytes.data(), &header, sizeof header);
    ReuseSlotOf(header.kind, &bytes);
    const uint64_t before = program_.size();
    const absl::Status status =
        decoder_->Decode(*reinterpret_cast<const protocol::Record*>(bytes.data()));
    ASSERT_TRUE(status.ok()) << status;
    for (uint64_t op = before; op < program_.size(); ++op)
      Simulate(op);
  }
}

void TracedGpu::Simulate(uint64_t index) {
  const Op op = program_.op(index);
  if (op.launch != 0 && launches_.size() >= options_.launch_queue_depth) {
    const int64_t now = channel_.Now().nanoseconds();
    if (launches_.front() > now) {
      queue_start_ns_ = now;
      RaiseHost(queue_end_ns_ = launches_.front());
    }
    launches_.pop_front();
  }
  const int64_t host = channel_.Now().nanoseconds();
  int64_t& lane = lane_ends_[op.lane];
  switch (op.kind) {
    case OpKind::kWork:
    case OpKind::kCollective:
    case OpKind::kTransfers:
      lane = std::max(lane, host + kLatencyNs) + op.value;
      launches_.push_back(lane);
      break;
    case OpKind::kRecordToken:
      token_ends_[op.a] = std::max(lane, host + kLatencyNs);
      break;
    case OpKind::kWaitToken:
      lane = std::max(lane, token_ends_[op.a]);
      break;
    case OpKind::kReleaseLane:
      lane = 0;
      break;
    default:
      break;
  }
}

int64_t TracedGpu::EndOf(const Op& op) const {
  const bool is_lane = op.kind == OpKind::kHostWaitLane ||
                       op.kind == OpKind::kQueryLane || op.kind == OpKind::kPollLane;
  const auto& ends = is_lane ? lane_ends_ : token_ends_;
  const auto found = ends.find(is_lane ? op.lane : op.a);
  return found == ends.end() ? 0 : found->second;
}

Answer TracedGpu::OnAsk(const FakeChannel::Written& question) {
  Consume();
  const uint64_t index = program_.size() - 1;
  const Op op = program_.op(index);
  const int64_t host = channel_.Now().nanoseconds();
  Answer answer;
  if (wait_start_ns_ < 0)
    wait_start_ns_ = host;
  if (question.kind == protocol::RecordKind::kCommInit ||
      question.kind == protocol::RecordKind::kCommSplit) {
    RaiseHost(host + 12'345);
    answer.value = uint64_t{2} << 32;
  } else if (op.kind == OpKind::kPollToken || op.kind == OpKind::kPollLane) {
    const int64_t left = std::max<int64_t>(0, EndOf(op) - host);
    RaiseHost(host + (left + op.value - 1) / op.value * op.value);
  } else if (op.kind == OpKind::kQueryToken || op.kind == OpKind::kQueryLane) {
    answer.complete = EndOf(op) <= host;
    program_.SetAnswer(index, answer.complete ? kAnswerComplete : kAnswerNotYet);
  } else if (op.kind == OpKind::kHostWaitToken || op.kind == OpKind::kHostWaitLane) {
    // Of several waits in a row the last one asks; what the others wait for counts.
    int64_t end = 0;
    for (uint64_t i = index + 1; i-- > call_first_op_;) {
      const Op& wait = program_.op(i);
      if (wait.kind != OpKind::kHostWaitToken && wait.kind != OpKind::kHostWaitLane)
        break;
      end = std::max(end, EndOf(wait));
    }
    RaiseHost(end);
    answer.complete = true;
  }
  answer.host = channel_.Now();
  answer.end = TimePoint::FromNanoseconds(EndOf(op));
  return answer;
}

// ----- Rows -----------------------------------------------------------------------

void TracedGpu::AddSync(SyncKind kind, void* stream, void* event) {
  TracedSync row;
  row.kind = kind;
  row.correlation = call_.correlation;
  row.context = kContext;
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
  row.context = kContext;
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

void TracedGpu::Work(const char* function, bool is_driver, void* stream, WorkClass work,
                     const std::string& name, const std::function<void()>& run) {
  CallScope call(this, function, is_driver);
  run();
  Consume();
  AddWork(work, name, stream);
}

// ----- Calls ------------------------------------------------------------------------

void* TracedGpu::NewStream(bool blocking) {
  CallScope call(this, "cudaStreamCreateWithFlags");
  void* stream = nullptr;
  EXPECT_EQ(gpu_->CreateStream(blocking ? 0 : gpu::kStreamNonBlocking, 0, &stream),
            gpu::Error::kSuccess);
  stream_numbers_[stream] = ++last_stream_;
  TracedStream row;
  row.context = kContext;
  row.stream = last_stream_;
  row.kind =
      blocking ? TracedStream::Kind::kBlocking : TracedStream::Kind::kNonBlocking;
  row.correlation = call_.correlation;
  trace_.streams.push_back(row);
  return stream;
}

void TracedGpu::DestroyStream(void* stream) {
  CallScope call(this, "cudaStreamDestroy");
  TracedStream row;
  row.context = kContext;
  row.stream = StreamNumber(stream);
  row.destroyed = true;
  row.correlation = call_.correlation;
  trace_.streams.push_back(row);
  EXPECT_EQ(gpu_->DestroyStream(stream), gpu::Error::kSuccess);
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
  trace_.event_records.push_back({call_.correlation, kContext, StreamNumber(stream),
                                  events_[event].number, last_sync_id_});
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

void TracedGpu::Range(const std::string& name, bool begin) {
  protocol::Range record{};
  record.record.kind =
      begin ? protocol::RecordKind::kRangeBegin : protocol::RecordKind::kRangeEnd;
  record.name = channel_.Name(name);
  Channel& channel = channel_;
  channel.Emit(record);
  Consume();
  trace_.ranges.push_back({begin, 0, 0, Name(name), channel_.Now().nanoseconds()});
}

void TracedGpu::Sleep(int64_t ns) {
  Channel& channel = channel_;
  channel.Spend(Duration::Nanoseconds(ns));
}

uint32_t TracedGpu::InitCommunicator(uint32_t ranks, uint32_t rank) {
  TracedNcclCall row;
  row.start_ns = channel_.Now().nanoseconds();
  protocol::CommInit record{};
  record.record.kind = protocol::RecordKind::kCommInit;
  record.communicator = row.communicator = ++communicators_;
  record.ranks = row.creation.ranks = row.told_size = ranks;
  record.rank = row.creation.rank = row.told_index = rank;
  call_first_op_ = program_.size();
  Channel& channel = channel_;
  channel.Ask(record);
  gpu_->Reserve(0, 5 * kMiB, MemoryOwner::kCommunicator);
  Consume();
  row.end_ns = channel_.Now().nanoseconds();
  trace_.nccl_calls.push_back(row);
  trace_.reserves.push_back(
      {MemoryOwner::kCommunicator, static_cast<int64_t>(6 * kMiB), 0, row.end_ns});
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
    gpu_->BeginWork({0, record.lane});
    Channel& channel = channel_;
    channel.Emit(record);
    gpu_->EndWork({0, record.lane});
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
    gpu_->BeginWork({0, record.lane});
    Channel& channel = channel_;
    channel.Emit(record, transfers.data(), transfers.size() * sizeof(Transfer));
    gpu_->EndWork({0, record.lane});
  });
  TracedOperation row;
  row.correlation = correlation_;
  row.communicator = communicator;
  row.stream = StreamNumber(stream);
  row.is_collective = false;
  row.transfers = std::move(transfers);
  trace_.operations.push_back(row);
}

void TracedGpu::Finish() {
  Range("iteration", false);  // a trace shows no time after its last row
  protocol::Record last{};
  last.kind = protocol::RecordKind::kHost;
  struct Host {
    protocol::Record record;
  };
  Channel& channel = channel_;
  channel.Emit(Host{last});
  Consume();
  decoder_->Finish();
  program_.Close();
}

}  // namespace vrank::graph
