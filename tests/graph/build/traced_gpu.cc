// Construction, and the passing of time: records become ops, ops take their time.

#include "tests/graph/build/traced_gpu.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/graph/build/traced_gpu_call.h"

namespace vrank::graph {
namespace {

constexpr int64_t kLatencyNs = 2000;

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
  absl::StatusOr<RootedTransfers> OnTransfers(int32_t, uint32_t,
                                              std::span<const Transfer>) override {
    return RootedTransfers();
  }
  void OnRelease(int32_t, uint32_t) override {}
  void OnLoss(int32_t, uint64_t, uint32_t, const std::string&, uint64_t) override {}
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
  EXPECT_TRUE(gpu_->libraries().FindStream(stream, -1, &found, nullptr));
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
