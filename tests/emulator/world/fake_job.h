// A job whose real ranks are threads of the test: each writes into its ring through the
// guests' own channel, as a training process would, without processes and sockets.

#ifndef VRANK_TESTS_EMULATOR_WORLD_FAKE_JOB_H_
#define VRANK_TESTS_EMULATOR_WORLD_FAKE_JOB_H_

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "emulator/world/cast.h"
#include "emulator/world/world.h"
#include "graph/membership/layout.h"
#include "graph/membership/membership_inference.h"
#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/channel/guest_channel.h"

namespace vrank::emulator {

// 500 ns for whatever communicates; collectives may take longer.
class FlatNetwork : public graph::NetworkModel {
 public:
  explicit FlatNetwork(Duration collective) : collective_(collective) {}
  graph::Cost Collective(const graph::CollectiveCall&,
                         std::span<const int32_t>) const override {
    return {collective_};
  }
  graph::Cost Transfer(uint64_t, int32_t, int32_t) const override {
    return {Duration::Nanoseconds(500)};
  }
  uint64_t TransferCreditBytes(int32_t, int32_t) const override { return 0; }
  graph::Cost Creation(std::span<const int32_t>) const override {
    return {Duration::Nanoseconds(500)};
  }

 private:
  const Duration collective_;
};

// A GEMM takes m ns; nothing else is launched. `gap_ns`: of it, before it begins.
class GemmPricer : public WorkPricer {
 public:
  explicit GemmPricer(int64_t gap_ns) { gpu_.set_kernel_gap_ns(gap_ns); }
  absl::StatusOr<uint32_t> DefineKernel(const std::string&) override { return 0u; }
  absl::StatusOr<graph::WorkCost> Kernel(uint32_t, const protocol::Kernel&,
                                         std::span<const std::byte>) override {
    return graph::WorkCost{1};
  }
  graph::WorkCost Gemm(const protocol::Gemm& gemm) override {
    return graph::WorkCost{static_cast<int64_t>(gemm.m)};
  }
  graph::WorkCost Copy(const protocol::Copy&) override { return graph::WorkCost{1}; }
  graph::WorkCost Memset(const protocol::Memset&) override {
    return graph::WorkCost{1};
  }
  const graph::GpuDescription* gpu() const override {
    return gpu_.kernel_gap_ns() == 0 ? nullptr : &gpu_;
  }

 private:
  graph::GpuDescription gpu_;
};

// The calls of a small training program, on lane 1 and communicator 1.
class Guest {
 public:
  Guest(host::GuestChannel* channel, uint32_t rank) : channel_(channel), rank_(rank) {}

  uint32_t rank() const { return rank_; }
  Channel& channel() { return *channel_; }

  void Init(uint32_t ranks, uint32_t communicator = 1) {
    protocol::CommInit init{};
    init.record.kind = protocol::RecordKind::kCommInit;
    init.communicator = communicator;
    init.ranks = ranks;
    init.rank = rank_;
    init.local_members = 1;
    init.unique_id[0] = static_cast<uint8_t>(communicator);
    channel_->Ask(init);
  }
  void Work(uint64_t ns) {
    protocol::Gemm gemm{};
    gemm.record.kind = protocol::RecordKind::kGemm;
    gemm.lane = 1;
    gemm.m = ns;
    gemm.n = gemm.k = gemm.batch = 1;
    channel_->Emit(gemm);
  }
  // A sum of one 32-bit integer. Without a value the contribution is computed.
  void AllReduce(std::optional<int32_t> value = std::nullopt) {
    if (value.has_value()) {
      protocol::Payload payload{};
      payload.record.kind = protocol::RecordKind::kPayload;
      payload.key = protocol::PayloadKey{1, collectives_, protocol::kNone, 0};
      payload.state = protocol::PayloadState::kKnown;
      payload.last = 1;
      payload.bytes = sizeof(int32_t);
      channel_->Emit(payload, &*value, sizeof(int32_t));
    }
    protocol::Collective call{};
    call.record.kind = protocol::RecordKind::kCollective;
    call.lane = 1;
    call.communicator = 1;
    call.count = 1;
    call.type = protocol::ElementType::kInt32;
    channel_->Emit(call);
    ++collectives_;
  }
  // Without a lane: that of the communicator's number.
  void Transfer(uint32_t peer, bool send, uint32_t communicator = 1,
                uint32_t lane = 0) {
    protocol::PointToPoint group{};
    group.record.kind = protocol::RecordKind::kPointToPoint;
    group.lane = lane != 0 ? lane : communicator;
    group.communicator = communicator;
    group.count = 1;
    const protocol::Transfer transfer{64, peer, send ? 1u : 0u};
    channel_->Emit(group, &transfer, sizeof(transfer));
  }
  void Record(uint32_t token) {
    protocol::TokenOnLane record{};
    record.record.kind = protocol::RecordKind::kRecordToken;
    record.lane = 1;
    record.token = token;
    channel_->Emit(record);
  }
  bool Query(uint32_t token) {
    protocol::HostQuery query{};
    query.record.kind = protocol::RecordKind::kHostQuery;
    query.target_kind = protocol::QueryTarget::kToken;
    query.target = token;
    return channel_->Ask(query).complete;
  }
  // The host clock once everything on the lane has ended.
  int64_t Synchronize(uint32_t lane = 1) {
    protocol::HostWait wait{};
    wait.record.kind = protocol::RecordKind::kHostWaitLane;
    wait.target = lane;
    return channel_->Ask(wait).host.nanoseconds();
  }
  // The last all-reduce's result, or the policy value where it is computed.
  int32_t Result() {
    protocol::FetchPayload fetch{};
    fetch.record.kind = protocol::RecordKind::kFetchPayload;
    fetch.key = protocol::PayloadKey{1, collectives_ - 1, protocol::kNone, 0};
    fetch.bytes = sizeof(int32_t);
    int32_t value = 0;
    channel_->LockBounce();
    if (channel_->Ask(fetch).value == sizeof(value))
      std::memcpy(&value, channel_->bounce(), sizeof(value));
    channel_->UnlockBounce();
    return value;
  }
  void Range(const std::string& name, bool begin) {
    protocol::Range range{};
    range.record.kind =
        begin ? protocol::RecordKind::kRangeBegin : protocol::RecordKind::kRangeEnd;
    range.name = channel_->Name(name);
    channel_->Emit(range);
  }

 private:
  host::GuestChannel* const channel_;
  const uint32_t rank_;
  uint32_t collectives_ = 0;
};

class FakeJob {
 public:
  using Program = std::function<void(Guest& guest)>;

  // Ranks that `programs` names are real; the others follow.
  FakeJob(int32_t world_size, const std::map<int32_t, Program>& programs,
          WorldOptions options = {}, Duration collective = Duration::Nanoseconds(500),
          int64_t kernel_gap_ns = 0)
      : layout_(graph::Layout::Flat(world_size)),
        network_(collective),
        pricer_(kernel_gap_ns) {
    std::vector<int32_t> real;
    for (const auto& [rank, program] : programs)
      real.push_back(rank);
    membership_ = std::make_unique<graph::MembershipInference>(layout_, real);
    options.results.iteration_pattern = *MakeIterationPattern(kDefaultIterationRange);
    options.results.collectives = true;
    world_ =
        std::make_unique<World>(std::move(options), &network_, membership_.get(),
                                &pricer_, std::set<int32_t>(real.begin(), real.end()));
    for (const auto& [rank, program] : programs) {
      ranks_.push_back(std::make_unique<Rank>());
      Rank& added = *ranks_.back();
      added.guest =
          std::make_unique<Guest>(&added.linked.channel(), static_cast<uint32_t>(rank));
      added.rank = world_->AddReal(rank, &added.linked.link());
      added.thread = std::thread([&added, program = program] {
        added.linked.channel().ClaimRank();
        program(*added.guest);
        added.ended = true;
      });
    }
    const auto cast = CastByClass(layout_, real, false);
    for (const VirtualRank& rank : *cast)
      world_->AddFollower(rank.rank, rank.leader);
  }
  ~FakeJob() {
    Release();
    for (const auto& rank : ranks_)
      rank->thread.join();
  }

  World& world() { return *world_; }

  enum class Outcome { kFinished, kStuck, kFailed };
  // As Session::Loop, without processes. `on_turn`: called before each.
  Outcome Run(const std::function<void()>& on_turn = {}) {
    while (true) {
      if (on_turn)
        on_turn();
      const absl::StatusOr<World::Moved> moved = world_->Advance();
      if (!moved.ok()) {
        status_ = moved.status();
        return Outcome::kFailed;
      }
      for (const auto& rank : ranks_)
        if (rank->ended && !rank->rank->closed() &&
            rank->linked.link().BytesWaiting() == 0)
          world_->CloseRank(rank->rank);
      if (moved->any() || !world_->AllBlocked()) {
        std::this_thread::yield();
        continue;
      }
      // What was written between the two looks is seen by one more turn.
      if (const auto again = world_->Advance(); again.ok() && again->any())
        continue;
      if (world_->Finished())
        return Outcome::kFinished;
      if (world_->DecideOldestQuery())
        ++decided_;
      else
        return Outcome::kStuck;
    }
  }
  int decided() const { return decided_; }
  const absl::Status& status() const { return status_; }

 private:
  struct Rank {
    host::LinkedChannel linked;
    std::unique_ptr<Guest> guest;
    RealRank* rank = nullptr;
    std::atomic<bool> ended{false};
    std::thread thread;
  };

  // Lets threads that wait for ever end: answers whatever they ask.
  void Release() {
    for (const auto& rank : ranks_)
      while (!rank->ended) {
        for (uint32_t slot = 0; slot < protocol::kAnswerSlots; ++slot)
          rank->linked.link().Answer(slot, AnswerValues{});
        std::this_thread::yield();
      }
  }

  graph::Layout layout_;
  FlatNetwork network_;
  GemmPricer pricer_;
  std::unique_ptr<graph::MembershipInference> membership_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unique_ptr<World> world_;
  absl::Status status_;
  int decided_ = 0;
};

}  // namespace vrank::emulator

#endif  // VRANK_TESTS_EMULATOR_WORLD_FAKE_JOB_H_
