// A Channel without an emulator: keeps the records that a guest library writes.
//
// Questions are answered from what the test prepares (answers, published ends,
// payloads) or by the simplest rule that is consistent: everything has ended, at the
// host clock.
//
// Thread rule: every method may be called from any thread; the vector of records is
// read when no other thread writes.

#ifndef VRANK_TESTS_VIRTUAL_GPU_CORE_FAKE_CHANNEL_H_
#define VRANK_TESTS_VIRTUAL_GPU_CORE_FAKE_CHANNEL_H_

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/guest/channel.h"

namespace vrank {

class FakeChannel final : public Channel {
 public:
  struct Written {
    protocol::RecordKind kind;
    std::vector<unsigned char> bytes;  // struct and tail

    template <typename T>
    T as() const {
      T record;
      std::memcpy(static_cast<void*>(&record), bytes.data(), sizeof(T));
      return record;
    }
    template <typename T>
    std::vector<unsigned char> tail() const {
      return {bytes.begin() + sizeof(T), bytes.end()};
    }
  };

  FakeChannel() {
    std::memset(static_cast<void*>(&settings_), 0, sizeof settings_);
    settings_.world_size = settings_.local_world_size = settings_.devices = 1;
    settings_.launch_queue_depth = 1024;
    size_t row = 0;
#define VRANK_HOST_COST(id, default_ns, meaning) \
  settings_.host_costs_ns[row++] = default_ns;
#include "base/guest/host_costs.def"
#undef VRANK_HOST_COST
    protocol::GpuProperties& gpu = settings_.gpu;
    std::strcpy(gpu.name, "Fake GPU");
    gpu.memory_bytes = uint64_t{80} << 30;
    gpu.context_bytes = uint64_t{500} << 20;
    gpu.compute_major = 9;
    gpu.multiprocessors = 132;
    gpu.shared_per_block = 48 << 10;
    gpu.shared_per_block_optin = 227 << 10;
    gpu.shared_per_multiprocessor = 228 << 10;
    gpu.registers_per_multiprocessor = 65536;
    gpu.threads_per_multiprocessor = 2048;
    gpu.blocks_per_multiprocessor = 32;
    gpu.l2_bytes = 50 << 20;
    gpu.clock_khz = 1980000;
  }
  virtual ~FakeChannel() = default;

  // --- What a test prepares and reads --------------------------------------------
  protocol::Settings& mutable_settings() { return settings_; }
  // Answers a question; the default is described above. `slot` is filled in by now.
  std::function<Answer(const Written&)> on_ask;
  // Answers a question that is collected later (the start of a host function).
  std::function<Answer(const Written&)> on_collect;
  // Says a token's end instead of `published`.
  std::function<std::optional<TimePoint>(uint32_t, uint32_t)> on_published;
  // (token, generation) -> end.
  std::map<std::pair<uint32_t, uint32_t>, TimePoint> published;
  std::vector<unsigned char> bounce_bytes =
      std::vector<unsigned char>(protocol::kBounceBytes);
  bool is_detached = false;
  std::atomic<bool> is_aborting = false;
  bool may_claim = true;
  bool clock_is_local = true;
  uint64_t shared_gpus = 0;  // a bit for each

  std::vector<Written> records() const {
    std::lock_guard lock(mutex_);
    return records_;
  }
  std::vector<Written> records(protocol::RecordKind kind) const {
    std::vector<Written> found;
    for (const Written& record : records())
      if (record.kind == kind)
        found.push_back(record);
    return found;
  }
  void Clear() {
    std::lock_guard lock(mutex_);
    records_.clear();
  }
  void SetNow(TimePoint now) {
    std::lock_guard lock(mutex_);
    now_ = now;
  }
  // Amount counted for this loss so far, kept across Clear.
  uint64_t Lost(LossId loss) const {
    std::lock_guard lock(mutex_);
    auto found = losses_.find(static_cast<uint32_t>(loss));
    return found == losses_.end() ? 0 : found->second;
  }
  std::string NameOf(uint32_t name) const {
    std::lock_guard lock(mutex_);
    return name == 0 ? std::string() : names_.at(name - 1);
  }

  // --- Channel ---------------------------------------------------------------------
  const protocol::Settings& settings() const override { return settings_; }
  TimePoint Now() override {
    std::lock_guard lock(mutex_);
    return now_;
  }
  using Channel::Spend;
  void Spend(Duration duration) override {
    std::lock_guard lock(mutex_);
    now_ += duration;
  }
  Answer Collect(uint32_t slot) override {
    Written question;
    {
      std::lock_guard lock(mutex_);
      question = later_.at(slot);
    }
    if (on_collect)
      return on_collect(question);
    Answer answer;
    answer.host = answer.end = Now();
    return answer;
  }
  uint32_t Name(std::string_view text) override {
    if (text.empty())
      return 0;
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == text)
        return static_cast<uint32_t>(i + 1);
    names_.emplace_back(text);
    return static_cast<uint32_t>(names_.size());
  }
  std::optional<TimePoint> PublishedEnd(uint32_t token, uint32_t generation) override {
    if (on_published)
      return on_published(token, generation);
    std::lock_guard lock(mutex_);
    auto found = published.find({token, generation});
    if (found == published.end())
      return std::nullopt;
    return found->second;
  }
  bool ClockIsLocal() override { return clock_is_local; }
  uint64_t launches() const override { return launches_; }
  const unsigned char* bounce() const override { return bounce_bytes.data(); }
  void LockBounce() override { bounce_mutex_.lock(); }
  void UnlockBounce() override { bounce_mutex_.unlock(); }
  bool detached() const override { return is_detached; }
  bool aborting() const override { return is_aborting; }
  bool SharesGpu(uint32_t node_device) const override {
    return (shared_gpus >> node_device & 1) != 0;
  }
  bool ClaimRank() override { return may_claim; }

 private:
  void EmitRecord(protocol::Record* record, size_t struct_bytes, const void* tail,
                  size_t tail_bytes, uint32_t* slot) override {
    std::lock_guard lock(mutex_);
    if (slot != nullptr)
      *slot = next_slot_++;
    Written written = Store(record, struct_bytes, tail, tail_bytes);
    if (slot != nullptr)
      later_[*slot] = written;
  }
  Answer AskRecord(protocol::Record* record, size_t struct_bytes, uint32_t* slot,
                   const void* tail, size_t tail_bytes) override {
    Written question;
    {
      std::lock_guard lock(mutex_);
      *slot = next_slot_++;
      question = Store(record, struct_bytes, tail, tail_bytes);
    }
    Answer answer;
    if (on_ask) {
      answer = on_ask(question);
    } else {
      answer.host = Now();
      answer.end = EndOf(question);
      answer.complete = true;
    }
    if (answer.host > Now())
      SetNow(answer.host);
    return answer;
  }
  // A token ended when it was recorded, everything else now.
  TimePoint EndOf(const Written& question) const {
    std::lock_guard lock(mutex_);
    uint32_t token = 0;
    if (question.kind == protocol::RecordKind::kHostWaitToken)
      token = question.as<protocol::HostWait>().target;
    else if (question.kind == protocol::RecordKind::kHostQuery &&
             question.as<protocol::HostQuery>().target_kind ==
                 protocol::QueryTarget::kToken)
      token = question.as<protocol::HostQuery>().target;
    auto found = recorded_.find(token);
    return found == recorded_.end() ? now_ : found->second;
  }
  // REQUIRES: mutex_ held.
  Written Store(protocol::Record* record, size_t struct_bytes, const void* tail,
                size_t tail_bytes) {
    size_t padded = (tail_bytes + 7) / 8 * 8;
    record->size = static_cast<uint32_t>(struct_bytes + padded);
    record->host_ns = (now_ - last_).nanoseconds();
    last_ = now_;
    Written written{record->kind, {}};
    written.bytes.resize(struct_bytes + padded);
    std::memcpy(written.bytes.data(), record, struct_bytes);
    if (tail_bytes > 0)
      std::memcpy(written.bytes.data() + struct_bytes, tail, tail_bytes);
    if (record->kind >= protocol::RecordKind::kKernel &&
        record->kind <= protocol::RecordKind::kHostFunc)
      ++launches_;
    if (record->kind == protocol::RecordKind::kLoss) {
      auto loss = written.as<protocol::Loss>();
      losses_[loss.loss] += loss.amount;
    }
    if (record->kind == protocol::RecordKind::kRecordToken)
      recorded_[written.as<protocol::TokenOnLane>().token] = now_;
    records_.push_back(written);
    return written;
  }

  mutable std::mutex mutex_;
  std::mutex bounce_mutex_;
  protocol::Settings settings_;
  TimePoint now_, last_;
  uint64_t launches_ = 0;
  uint32_t next_slot_ = 0;
  std::vector<Written> records_;
  std::vector<std::string> names_;
  std::map<uint32_t, uint64_t> losses_;
  std::map<uint32_t, TimePoint> recorded_;  // token -> when it was recorded last
  std::map<uint32_t, Written> later_;
};

}  // namespace vrank

#endif  // VRANK_TESTS_VIRTUAL_GPU_CORE_FAKE_CHANNEL_H_
