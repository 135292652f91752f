// See code.h. A pass for the tokens, one for the launch queue, one for the code.

#include "graph/sweep/code.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "graph/replay/program_facts.h"
#include "graph/replay/step.h"
#include "graph/sweep/launches.h"
#include "graph/sweep/shortcuts.h"

namespace vrank::graph {
namespace {

constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMaxIssue = int64_t{1} << 30;
constexpr uint64_t kMostSplits = 1 << 20;  // 13 days

class Compiler {
 public:
  Compiler(const Program& program, const SweepCodeOptions& options)
      : program_(program),
        options_(options),
        latency_(options.engine.launch_latency.nanoseconds()),
        assumed_host_(options.ledgers.PlaceOf(&Stamp::assumed_host)) {
    code_.program = &program;
  }

  absl::StatusOr<SweepCode> Run() {
    if (program_.size() >= kNever || latency_ < 0 || latency_ > kMaxIssue)
      return absl::UnimplementedError("the program is too long");
    looks_ = ObservedRanges(program_, options_.observe);
    last_use_ = LastUses(program_);
    for (const LaunchWait& wait : FeltLaunchWaits(program_, options_, looks_)) {
      waits_[wait.waiting] = wait.launched;
      saved_[wait.launched] = SweepOp::kNoSlot;
    }
    for (uint32_t i = 0; i < program_.size() && status_.ok(); ++i)
      Compile(i, program_.op(i));
    while (!pending_.empty())
      Await(pending_.begin()->first);
    Emit(SweepKind::kHostWait, SweepOp::kNoSlot, Host());
    TakeOver();
    Emit(SweepKind::kEnd, SweepOp::kNoSlot, 0);
    if (!status_.ok())
      return status_;
    for (SweepCode::Communicator& communicator : code_.communicators) {
      communicator.transfer_slot = slots_;
      slots_ += communicator.transfer_slots;
    }
    code_.slots = slots_;
    if (code_.slots >= SweepOp::kNoSlot)
      return absl::UnimplementedError("a rank has too many ends to keep");
    FindShortcuts(&code_);
    code_.fixed = FixedResult(program_);
    return std::move(code_);
  }

 private:
  struct LastOperation {
    uint32_t place = 0;
    uint32_t lane = 0;
  };

  void Fail(const char* what, uint32_t i) {
    if (status_.ok())
      status_ = absl::UnimplementedError(fmt::format("op {}: {}", i, what));
  }

  uint16_t NewSlot() {
    return static_cast<uint16_t>(std::min<uint32_t>(slots_++, SweepOp::kNoSlot));
  }
  uint16_t TakeSlot() {
    if (free_.empty())
      return NewSlot();
    const uint16_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  uint16_t LaneSlot(uint32_t lane) {
    const auto [at, added] = lanes_.try_emplace(lane, SweepOp::kNoSlot);
    if (added)
      at->second = NewSlot();
    return at->second;
  }
  uint32_t CommunicatorPlace(uint32_t number) {
    const auto [at, added] = communicators_.try_emplace(
        number, static_cast<uint32_t>(code_.communicators.size()));
    if (added)
      code_.communicators.push_back({number, NewSlot(), 0, 0});
    return at->second;
  }

  // The host clock since slot 0.
  int64_t Host() const { return host_ns_; }
  void TakeOver() {
    host_ns_ = 0;
    host_ledgers_ = {};
  }
  void SpendOnHost(int64_t ns, Source source) {
    code_.host_ns += ns;
    const uint8_t ledger = options_.ledgers.OnHost(source);
    // Each wait beyond the program's own ops is an op of the code.
    splits_ += static_cast<uint64_t>(ns / kMaxIssue);
    if (splits_ > kMostSplits) {
      Fail("host time of days", place_);
      return;
    }
    while (ns > 0) {
      const int64_t part = std::min(ns, kMaxIssue);
      if (host_ns_ + part > kMaxIssue) {
        Emit(SweepKind::kHostWait, SweepOp::kNoSlot, Host());
        TakeOver();
      }
      host_ns_ += part;
      if (ledger != 0)
        host_ledgers_[ledger - 1] += part;
      ns -= part;
    }
  }

  SweepOp& Emit(SweepKind kind, uint16_t slot, int64_t issue, uint32_t x = 0) {
    SweepOp op;
    op.kind = kind;
    op.slot = slot;
    op.issue = static_cast<uint32_t>(issue);
    op.x = x;
    code_.ops.push_back(op);
    for (int i = 0; i < options_.ledgers.count(); ++i)
      code_.ledgers.push_back(static_cast<uint32_t>(host_ledgers_[i]));
    if (options_.store_ends)
      code_.places.push_back(place_);
    return code_.ops.back();
  }
  // What begins on a lane not before the host and the launch latency.
  SweepOp& EmitIssued(SweepKind kind, uint32_t lane, uint32_t x = 0) {
    SweepOp& op = Emit(kind, LaneSlot(lane), Host() + latency_, x);
    if (assumed_host_ != 0) {
      code_.ledgers[code_.ledgers.size() - options_.ledgers.count() + assumed_host_ -
                    1] += static_cast<uint32_t>(latency_);
    }
    return op;
  }

  // Operations of communicators that a lane has not taken the end of.
  void Await(uint32_t communicator) {
    const LastOperation last = pending_.at(communicator);
    pending_.erase(communicator);
    pending_on_.erase(last.lane);
    const uint32_t place = place_;
    place_ = last.place;
    Emit(SweepKind::kAwait, LaneSlot(last.lane), 0, communicator).y =
        code_.communicators[communicator].slot;
    Save(last.place, LaneSlot(last.lane));
    place_ = place;
  }
  void NeedLane(uint32_t lane) {
    if (const auto at = pending_on_.find(lane); at != pending_on_.end())
      Await(at->second);
  }
  void NeedCommunicator(uint32_t communicator) {
    if (pending_.count(communicator) != 0)
      Await(communicator);
  }

  // Keeps the end of a launch that somebody waits for.
  void Save(uint32_t i, uint16_t from) {
    const auto at = saved_.find(i);
    if (at == saved_.end())
      return;
    at->second = TakeSlot();
    Emit(SweepKind::kCopy, from, 0, at->second);
  }
  void WaitForLaunch(uint32_t i) {
    const auto wait = waits_.find(i);
    if (wait == waits_.end())
      return;
    for (const auto& [communicator, last] : pending_) {
      if (last.place == wait->second) {
        Await(communicator);
        break;
      }
    }
    const uint16_t slot = saved_.at(wait->second);
    HostWait(slot);
    free_.push_back(slot);
  }
  void HostWait(uint16_t slot, SweepKind kind = SweepKind::kHostWait) {
    Emit(kind, slot, Host());
    TakeOver();
  }

  // kNoSlot: the token was never recorded.
  uint16_t TokenSlot(uint32_t token) const {
    const auto at = tokens_.find(token);
    return at == tokens_.end() ? SweepOp::kNoSlot : at->second.first;
  }
  void ReleaseToken(uint32_t i, uint32_t token) {
    const auto at = tokens_.find(token);
    if (at == tokens_.end() || last_use_[at->second.second] != i)
      return;
    free_.push_back(at->second.first);
    tokens_.erase(at);
  }

  void Compile(uint32_t i, const Op& op) {
    if (op.from_helper != 0)
      return;
    place_ = i;
    SpendOnHost(op.host_ns, op.host_source);
    if (op.launch != 0)
      WaitForLaunch(i);
    switch (op.kind) {
      case OpKind::kWork:
      case OpKind::kHostFunc:
        Work(i, op);
        break;
      case OpKind::kRecordToken:
        RecordToken(i, op);
        break;
      case OpKind::kWaitToken:
        NeedLane(op.lane);
        if (const uint16_t token = TokenSlot(op.a);
            token != SweepOp::kNoSlot || options_.store_ends)
          Emit(SweepKind::kWaitToken, LaneSlot(op.lane), 0,
               token == SweepOp::kNoSlot ? LaneSlot(op.lane) : token);
        Save(i, LaneSlot(op.lane));
        ReleaseToken(i, op.a);
        break;
      case OpKind::kReleaseLane:
        NeedLane(op.lane);
        Emit(SweepKind::kZero, LaneSlot(op.lane), 0);
        for (auto& [communicator, lane] : last_lane_)
          lane = lane == op.lane ? kNever : lane;
        break;
      case OpKind::kHostWaitToken:
      case OpKind::kQueryToken:
      case OpKind::kPollToken:
        Question(i, op, TokenSlot(op.a));
        ReleaseToken(i, op.a);
        break;
      case OpKind::kHostWaitLane:
      case OpKind::kQueryLane:
      case OpKind::kPollLane:
        NeedLane(op.lane);
        Question(i, op, LaneSlot(op.lane));
        break;
      case OpKind::kCollective:
      case OpKind::kTransfers:
        Communicate(i, op);
        break;
      case OpKind::kCreateCommunicator:
        Create(i, op);
        break;
      case OpKind::kReleaseCommunicator:
        if (static_cast<ReleaseKind>(op.b) != ReleaseKind::kAbort) {
          const uint32_t communicator = CommunicatorPlace(op.a);
          NeedCommunicator(communicator);
          HostWait(code_.communicators[communicator].slot);
        }
        break;
      case OpKind::kRangeBegin:
      case OpKind::kRangeEnd:
        if (looks_[i]) {
          Emit(SweepKind::kObserve, SweepOp::kNoSlot, Host(),
               static_cast<uint32_t>(code_.observations.size()));
          code_.observations.push_back(i);
        }
        break;
      case OpKind::kMemory:
      case OpKind::kHost:
      case OpKind::kAskClock:
        break;
    }
  }

  void Work(uint32_t i, const Op& op) {
    NeedLane(op.lane);
    int64_t lowest = op.value, width = 0;
    if (op.kind == OpKind::kWork) {
      lowest = Step::Scaled(lowest, options_.work_numerator, options_.work_denominator);
      const Jitter::Span span = options_.jitter.SpanOf(lowest);
      lowest = span.lowest;
      width = span.width;
      ++code_.works;
    }
    if (lowest < 0 || lowest > kNever || width > kNever)
      Fail("work of more than four seconds", i);
    code_.busy_ns += lowest;
    SweepOp& work =
        EmitIssued(op.kind == OpKind::kWork ? SweepKind::kWork : SweepKind::kHostFunc,
                   op.lane, static_cast<uint32_t>(lowest));
    work.y = static_cast<uint32_t>(width);
    const uint8_t ledger = op.kind == OpKind::kWork
                               ? options_.ledgers.OnLane(op.source)
                               : options_.ledgers.OnHost(op.source);
    work.ledger = ledger;
    if (op.kind == OpKind::kWork && op.b != 0 && ledger != 0)
      Emit(SweepKind::kWeigh, LaneSlot(op.lane), 0, op.b).ledger = ledger;
    Save(i, LaneSlot(op.lane));
  }

  void RecordToken(uint32_t i, const Op& op) {
    const bool used = last_use_[i] != kNone;
    if (!used && saved_.count(i) == 0 && !options_.store_ends)
      return;
    NeedLane(op.lane);
    const uint16_t slot = TakeSlot();
    EmitIssued(SweepKind::kRecord, op.lane, slot);
    Save(i, slot);
    if (used)
      tokens_[op.a] = {slot, i};
    else
      free_.push_back(slot);
  }

  void Question(uint32_t i, const Op& op, uint16_t slot) {
    switch (op.kind) {
      case OpKind::kHostWaitToken:
      case OpKind::kHostWaitLane:
        HostWait(slot);
        break;
      case OpKind::kQueryToken:
      case OpKind::kQueryLane:
        if (op.b > kAnswerComplete)
          Fail("a query without an answer", i);
        Emit(SweepKind::kQuery, slot, Host(), op.b);
        break;
      default:
        Emit(SweepKind::kPoll, slot, Host(), static_cast<uint32_t>(code_.polls.size()));
        code_.polls.push_back({op.value, op.source});
        TakeOver();
        break;
    }
  }

  void Communicate(uint32_t i, const Op& op) {
    const uint32_t communicator = CommunicatorPlace(op.a);
    NeedLane(op.lane);
    NeedCommunicator(communicator);
    const auto [last, first] = last_lane_.try_emplace(communicator, op.lane);
    const auto meeting = static_cast<uint32_t>(code_.meetings.size());
    code_.meetings.push_back({op.kind, communicator, op.b});
    code_.meeting_slots.push_back({communicator, code_.communicators[communicator].slot,
                                   last->second != op.lane});
    last->second = op.lane;
    EmitIssued(
        op.kind == OpKind::kCollective ? SweepKind::kCollective : SweepKind::kTransfers,
        op.lane, meeting);
    pending_[communicator] = {i, op.lane};
    pending_on_[op.lane] = communicator;
    if (op.kind == OpKind::kTransfers) {
      uint32_t& slots = code_.communicators[communicator].transfer_slots;
      slots = std::max(slots, static_cast<uint32_t>(
                                  program_.details().transfer_groups[op.b].size()));
    }
  }

  void Create(uint32_t i, const Op& op) {
    if (op.value != 0 || !program_.details().creations[op.b].excluded.empty())
      Fail("a creation that does not wait, or a shrink", i);
    const uint32_t communicator = CommunicatorPlace(op.a);
    const uint16_t slot = code_.communicators[communicator].slot;
    const auto meeting = static_cast<uint32_t>(code_.meetings.size());
    code_.meetings.push_back({op.kind, communicator, op.b});
    code_.meeting_slots.push_back({communicator, slot, false});
    Emit(SweepKind::kCreate, SweepOp::kNoSlot, Host(), meeting);
    Emit(SweepKind::kAwait, SweepOp::kNoSlot, 0, communicator).y = slot;
    HostWait(slot, SweepKind::kHostMeet);
    Emit(SweepKind::kZero, slot, 0);
  }

  const Program& program_;
  const SweepCodeOptions& options_;
  const int64_t latency_;
  const uint8_t assumed_host_;
  absl::Status status_;
  SweepCode code_;
  std::vector<bool> looks_;
  std::vector<uint32_t> last_use_;      // by recording; kNone: none
  std::map<uint32_t, uint32_t> waits_;  // op that waits -> launch it waits for
  std::map<uint32_t, uint16_t> saved_;  // launch -> slot of its end
  uint32_t slots_ = 1;                  // 0: the host
  std::vector<uint16_t> free_;
  std::map<uint32_t, uint16_t> lanes_;
  std::map<uint32_t, std::pair<uint16_t, uint32_t>> tokens_;  // slot and recording
  std::map<uint32_t, uint32_t> communicators_;                // number -> place
  std::map<uint32_t, LastOperation> pending_;                 // by communicator
  std::map<uint32_t, uint32_t> pending_on_;                   // lane -> communicator
  std::map<uint32_t, uint32_t> last_lane_;                    // by communicator
  int64_t host_ns_ = 0;
  uint64_t splits_ = 0;  // of host times longer than kMaxIssue
  std::array<int64_t, 4> host_ledgers_{};
  uint32_t place_ = 0;  // in the program
};

}  // namespace

absl::StatusOr<SweepCode> CompileSweep(const Program& program,
                                       const SweepCodeOptions& options) {
  return Compiler(program, options).Run();
}

}  // namespace vrank::graph
