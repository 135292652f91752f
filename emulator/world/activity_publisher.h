// Tells a profiler in a guest when each of its records happened.
//
// The decoder says which op a record became, the engine when an op passed the host and
// what it did on its lane; the publisher puts the two together and writes entries into
// the rank's segment (protocol::ActivityEntry). It never waits for the reader: what the
// ring has no room for is kept until the next Flush.
//
// A record that becomes no op hands its host time to the next one, so the clock after
// it is that of the op before it plus the host time handed over so far.
//
// Made when the rank first asks; other ranks pay one branch per record and op.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_ACTIVITY_PUBLISHER_H_
#define VRANK_EMULATOR_WORLD_ACTIVITY_PUBLISHER_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "base/guest/protocol.h"
#include "emulator/connect/guest_link.h"
#include "emulator/decode/record_decoder.h"
#include "graph/replay/timeline_observer.h"

namespace vrank::emulator {

class ActivityPublisher final : public RecordObserver, public graph::TimelineObserver {
 public:
  // `records` and `ops`: decoded so far. `gap_ns`: of the time of a kernel, copy or
  // memset so much passes before it begins, as a profiler sees it.
  ActivityPublisher(GuestLink* link, uint64_t records, uint64_t ops, int64_t gap_ns);
  // The engine has passed so many ops, with the host clock there. REQUIRES: called
  // before the first record.
  void Begin(uint64_t passed_ops, int64_t host_ns);

  // What the record wants that OnRecord is told of next.
  void OnWish(protocol::ActivityWish wish, uint32_t slot);
  // A thread of the guest waits for an answer.
  bool has_questions() const { return !questions_.empty(); }

  // RecordObserver.
  void OnRecord(const protocol::Record& record, const Decoded& decoded) override;
  // graph::TimelineObserver.
  void OnOpPassed(int32_t rank, uint64_t op, const graph::Stamp& reached,
                  const graph::Stamp& passed) override;
  void OnOpEnded(int32_t rank, uint64_t op, const graph::Stamp& begin,
                 const graph::Stamp& end) override;

  // Writes what there is room for and answers what can be answered. Returns how many
  // questions were answered.
  uint64_t Flush();

 private:
  // What is told of an op beside the host clock.
  enum class Role : uint8_t { kNone, kWait, kLaunch, kToken };
  // A record that has not passed the host yet.
  struct OpenRecord {
    uint64_t ops;  // that the program had after it
    int64_t pending_ns;
    bool told;
    int64_t own_ns;  // the host's own time before it
    protocol::TimeSource source;
  };
  // An op that has not passed the host, or whose end on its lane is awaited.
  struct OpenOp {
    uint64_t record = 0;
    Role role = Role::kNone;
    protocol::TimeSource source = protocol::TimeSource::kModelled;
    bool has_gap = false;
    bool passed = false;
    bool ended = true;
  };
  struct Question {
    uint64_t record;
    uint64_t ops;  // that the program had then
    uint32_t slot;
    bool drain;
    bool passed = false;
    int64_t host_ns = 0;
  };

  static Role RoleOf(const protocol::Record& record);
  OpenOp* Find(uint64_t op);
  void PassRecords();
  void DropFinishedOps();
  void Tell(uint64_t record, protocol::ActivityEntryKind kind, int64_t begin_ns,
            int64_t end_ns,
            protocol::TimeSource source = protocol::TimeSource::kModelled);
  void WriteEntries();

  GuestLink* const link_;
  const int64_t gap_ns_;
  bool publishing_ = false;
  uint64_t records_;                     // decoded so far
  uint64_t ops_;                         // of the program, so far
  uint64_t passed_ops_ = 0;              // of them, passed by the host
  int64_t host_ns_ = 0;                  // after the latest of those
  std::deque<OpenRecord> open_records_;  // the last one is record number records_
  std::deque<OpenOp> open_ops_;          // the first one is op first_op_
  uint64_t first_op_;
  std::vector<protocol::ActivityEntry> entries_;  // from written_ on: not written yet
  size_t written_ = 0;
  std::deque<Question> questions_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_ACTIVITY_PUBLISHER_H_
