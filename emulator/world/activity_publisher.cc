#include "emulator/world/activity_publisher.h"

#include <algorithm>
#include <span>

namespace vrank::emulator {

using protocol::ActivityEntryKind;
using protocol::RecordKind;
using protocol::TimeSource;

namespace {

TimeSource Told(graph::Source source) {
  static_assert(static_cast<int>(TimeSource::kModelled) ==
                    static_cast<int>(graph::Source::kModelled) &&
                static_cast<int>(TimeSource::kAssumed) ==
                    static_cast<int>(graph::Source::kAssumed) &&
                static_cast<int>(TimeSource::kRecorded) ==
                    static_cast<int>(graph::Source::kRecorded) &&
                static_cast<int>(TimeSource::kMeasured) ==
                    static_cast<int>(graph::Source::kMeasured));
  return static_cast<TimeSource>(source);
}

// What a GPU starts itself, one after the other; NCCL's operations and callbacks begin
// when their ranks and the host are there.
bool HasGap(RecordKind kind) {
  return kind == RecordKind::kKernel || kind == RecordKind::kGemm ||
         kind == RecordKind::kCopy || kind == RecordKind::kMemset;
}

}  // namespace

ActivityPublisher::ActivityPublisher(GuestLink* link, uint64_t records, uint64_t ops,
                                     int64_t gap_ns)
    : link_(link), gap_ns_(gap_ns), records_(records), ops_(ops), first_op_(ops) {}

void ActivityPublisher::Begin(uint64_t passed_ops, int64_t host_ns) {
  passed_ops_ = passed_ops;
  host_ns_ = host_ns;
}

void ActivityPublisher::OnWish(protocol::ActivityWish wish, uint32_t slot) {
  switch (wish) {
    case protocol::ActivityWish::kStart:
      publishing_ = true;
      return;
    case protocol::ActivityWish::kStop:
      publishing_ = false;
      return;
    case protocol::ActivityWish::kClock:
    case protocol::ActivityWish::kDrain:
      questions_.push_back(Question{.record = records_ + 1,
                                    .ops = ops_,
                                    .slot = slot,
                                    .drain = wish == protocol::ActivityWish::kDrain});
      return;
  }
}

ActivityPublisher::Role ActivityPublisher::RoleOf(const protocol::Record& record) {
  switch (record.kind) {
    case RecordKind::kHostWaitToken:
    case RecordKind::kHostWaitLane:
      return Role::kWait;
    case RecordKind::kKernel:
    case RecordKind::kGemm:
    case RecordKind::kCopy:
    case RecordKind::kMemset:
    case RecordKind::kHostFunc:
    case RecordKind::kCollective:
    case RecordKind::kPointToPoint:
      return Role::kLaunch;
    case RecordKind::kRecordToken:
      return (record.flags & protocol::kTimed) != 0 ? Role::kToken : Role::kNone;
    default:
      return Role::kNone;
  }
}

// Of several ops of one record the last one is its own: those before it carry host time
// of another kind. A record with a role that became no op tells nothing.
void ActivityPublisher::OnRecord(const protocol::Record& record,
                                 const Decoded& decoded) {
  ++records_;
  if (decoded.ops > ops_) {
    open_ops_.resize(open_ops_.size() + (decoded.ops - ops_));
    ops_ = decoded.ops;
    if (publishing_) {
      OpenOp& own = open_ops_.back();
      own.record = records_;
      own.role = RoleOf(record);
      own.source = Told(decoded.work_source);
      own.has_gap = HasGap(record.kind);
      own.ended = own.role != Role::kLaunch && own.role != Role::kToken;
    }
  }
  open_records_.push_back({decoded.ops, decoded.pending_host_ns, publishing_,
                           record.host_ns, Told(decoded.host_source)});
  PassRecords();
}

ActivityPublisher::OpenOp* ActivityPublisher::Find(uint64_t op) {
  // Ops from before somebody asked are not open.
  return op < first_op_ ? nullptr : &open_ops_[op - first_op_];
}

void ActivityPublisher::OnOpPassed(int32_t, uint64_t op, const graph::Stamp& reached,
                                   const graph::Stamp& passed) {
  passed_ops_ = op + 1;
  host_ns_ = passed.ns;
  if (OpenOp* const open = Find(op)) {
    open->passed = true;
    if (open->role == Role::kWait)
      Tell(open->record, ActivityEntryKind::kWait, reached.ns, passed.ns);
    if (open->role == Role::kLaunch && passed.ns > reached.ns)
      Tell(open->record, ActivityEntryKind::kQueueFull, reached.ns, passed.ns);
    DropFinishedOps();
  }
  PassRecords();
}

void ActivityPublisher::OnOpEnded(int32_t, uint64_t op, const graph::Stamp& begin,
                                  const graph::Stamp& end) {
  OpenOp* const open = Find(op);
  if (open == nullptr || open->ended)
    return;
  open->ended = true;
  const int64_t begins =
      open->has_gap ? std::min(begin.ns + gap_ns_, end.ns) : begin.ns;
  Tell(open->record, ActivityEntryKind::kWork, begins, end.ns, open->source);
  DropFinishedOps();
}

void ActivityPublisher::PassRecords() {
  while (!open_records_.empty() && open_records_.front().ops <= passed_ops_) {
    const OpenRecord& front = open_records_.front();
    const uint64_t record = records_ - open_records_.size() + 1;
    const int64_t host_ns = host_ns_ + front.pending_ns;
    if (front.told)
      Tell(record, ActivityEntryKind::kHost, host_ns - front.own_ns, host_ns,
           front.source);
    for (Question& question : questions_) {
      if (question.record == record) {
        question.passed = true;
        question.host_ns = host_ns;
      }
    }
    open_records_.pop_front();
  }
}

void ActivityPublisher::DropFinishedOps() {
  while (!open_ops_.empty() && open_ops_.front().passed && open_ops_.front().ended) {
    open_ops_.pop_front();
    ++first_op_;
  }
}

void ActivityPublisher::Tell(uint64_t record, ActivityEntryKind kind, int64_t begin_ns,
                             int64_t end_ns, TimeSource source) {
  entries_.push_back({record, kind, source, begin_ns, end_ns});
}

void ActivityPublisher::WriteEntries() {
  written_ += link_->PublishActivity(std::span(entries_).subspan(written_));
  if (written_ == entries_.size()) {
    entries_.clear();
    written_ = 0;
  } else if (written_ > entries_.size() / 2) {
    entries_.erase(entries_.begin(),
                   entries_.begin() + static_cast<std::ptrdiff_t>(written_));
    written_ = 0;
  }
}

uint64_t ActivityPublisher::Flush() {
  WriteEntries();
  uint64_t answered = 0;
  for (auto question = questions_.begin(); question != questions_.end();) {
    if (!question->passed || (question->drain && first_op_ < question->ops)) {
      ++question;
      continue;
    }
    link_->Answer(question->slot, AnswerValues{.host_ns = question->host_ns,
                                               .end_ns = question->host_ns,
                                               .complete = true});
    question = questions_.erase(question);
    ++answered;
  }
  return answered;
}

}  // namespace vrank::emulator
