// The emulator's side of one real rank's segment: records in, answers out.
//
// A GuestLink makes the segment before its rank starts, so that a rank which never
// connects still has somewhere to be described. GuestServer hands it to the processes
// of the rank; they are not trusted to be sane: a record whose size makes no sense
// stops the link with an error instead of being followed out of the ring.
//
// A loop that serves several links looks like this:
//
//   drain:  while (const protocol::Record* r = link->Next()) { ...; link->Consume(); }
//   answer: link->Answer(slot, values);
//   sleep:  link->PrepareToSleep(...) on every link; if every BytesWaiting() is still
//   0,
//           epoll_wait on GuestServer::doorbell() and the other descriptors;
//           link->WokeUp() on every link.
//
// Thread rule: one thread, the emulator's; the guest is another process.

#ifndef VRANK_EMULATOR_CONNECT_GUEST_LINK_H_
#define VRANK_EMULATOR_CONNECT_GUEST_LINK_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/protocol.h"

namespace vrank::emulator {

// What an answer slot is filled with; the meaning is that of protocol::AnswerSlot.
struct AnswerValues {
  int64_t host_ns = 0;
  int64_t end_ns = 0;
  bool complete = false;
  uint64_t retired_launches = 0;
  uint64_t value = 0;
  bool beside = false;
};

class GuestLink {
 public:
  // Makes the segment and writes `settings` into it.
  static absl::StatusOr<std::unique_ptr<GuestLink>> Create(
      const protocol::Settings& settings);
  ~GuestLink();
  GuestLink(const GuestLink&) = delete;
  GuestLink& operator=(const GuestLink&) = delete;

  // What gaps of the rank take (protocol::HostTime::kRecorded). REQUIRES: no process of
  // the rank is connected yet; no key is 0, at most kMostRecordedGaps.
  void PlayGaps(std::span<const protocol::RecordedGap> gaps);
  // protocol::SegmentHeader::gaps_found.
  std::vector<uint64_t> gaps_found() const;
  // protocol::SegmentHeader::gpu_work_ns.
  int64_t gpu_work_ns() const;
  int64_t program_ns() const;  // SegmentHeader::program_ns
  // The next one of a thread whose process moves no clock, and the batch that it would
  // be; false: there is none yet.
  bool TakeFollowerGap(protocol::HostGaps* batch, protocol::HostGap* gap);

  int memfd() const { return memfd_; }
  const protocol::Settings& settings() const;

  // The next unread record, whole and contiguous, never kPad; nullptr where there is
  // none or the link is broken (status()). Valid until Consume().
  const protocol::Record* Next();
  // Gives the room of the record that Next() returned back to the guest.
  // REQUIRES: Next() returned a record since the last Consume().
  void Consume();
  // What can be answered of what was consumed so far, is.
  void NoteSettled();
  // Bytes written and not yet consumed.
  uint64_t BytesWaiting() const;
  // Not OK once the guest has written something that is no record.
  const absl::Status& status() const { return status_; }

  // Fills in the slot of a question and wakes its thread (a system call only where the
  // thread sleeps). Where the asking thread issues work it counts as running from here
  // on, before it has woken up.
  void Answer(uint32_t slot, const AnswerValues& values);
  // Several: all are there before the first thread is woken.
  struct SlotAnswer {
    uint32_t slot;
    AnswerValues values;
  };
  void Answer(std::span<const SlotAnswer> answers);
  // Tells the end of a token's generation to whoever looks; tokens beyond the table are
  // left out (guests ask for them).
  void Publish(uint32_t token, uint32_t generation, int64_t end_ns);
  // Writes as many of the entries as the ring has room for, and wakes the guest's
  // reader. Returns how many.
  size_t PublishActivity(std::span<const protocol::ActivityEntry> entries);
  // Where the bytes of a FetchPayload answer go, kBounceBytes long.
  unsigned char* bounce();

  // The rank can do nothing until it is answered: it has a live owner, all records are
  // consumed, and none of the threads that issue work is running.
  bool Blocked() const;
  // Host functions that have begun to run on a thread that never counts as issuing: how
  // long they take decides what the rank's threads wait for.
  void FunctionBegins() { ++functions_running_; }
  void FunctionEnds() { functions_running_ -= functions_running_ > 0 ? 1 : 0; }
  // Threads that issue work and do not wait in the emulator.
  int32_t running_issuers() const;
  // The host clock as the guest has it now; for descriptions only.
  int64_t host_now_ns() const;

  // Which records ring the doorbell while the emulator sleeps.
  enum class WakeFor : uint32_t {
    kQuestions = 1,  // a thread waits for an answer, or a quarter of the ring is full
    kAnything = 2,
  };
  // Asks the guest to ring. Look at BytesWaiting() again afterwards: what was written
  // before the guest saw the wish rings nothing.
  void PrepareToSleep(WakeFor wake_for);
  void WokeUp();

  // A rank has failed: every wait and every question of this one returns at once, and
  // tells so (Channel::aborting). Of records that come only FetchPayload means
  // something.
  void Fail(const std::string& reason);
  // A member of the rank's communicator `number` is lost; the job goes on. False: there
  // is no room for more.
  bool Break(uint32_t number, const std::string& reason);
  // Another process may hold memory of the node's GPU `device`: from here on this one
  // asks before it takes some (protocol::AskMemory). REQUIRES: device < 32.
  void ShareGpu(uint32_t device);
  // Ends the guest: every thread that waits or asks prints `reason` once and exits 70.
  void Abort(const std::string& reason);

  // Where no thread of the session can run: the earliest limit of a wait in one of the
  // rank's processes, nullopt where none has one. Granting it counts it as reached.
  struct Limit {
    uint32_t ticket;  // or, where `other` is set, its turn
    int64_t ns;
    protocol::OtherWait* other = nullptr;  // of a process that moves no clock
    // A thread that moves the clock sleeps until then or longer: nothing but time ends
    // that.
    bool sleeps = false;
    // Nobody waits for that time: a thread's turn may come then (SegmentHeader::
    // turn_wanted). 0: it is a wait's limit.
    uint64_t turn = 0;
    // Nothing but time ends the wait: `sleeps`, or the thread of `other` sleeps.
    bool only_time = false;
    // `other` sleeps, and the rank's process publishes its own limits at once: once all
    // ranks rest, no earlier limit can be pending.
    bool ends_at_rest = false;
  };
  std::optional<Limit> EarliestLimit() const;
  void GrantLimit(const Limit& limit);
  // A thread is about to wake up from the wait that was granted last: it looks every
  // few milliseconds, and sleeps until then.
  bool HasGrant() const;
  // A thread sleeps for a moment and goes on by itself: the rank is not at rest.
  bool LooksAgainSoon() const { return segment()->header.nappers.load() != 0; }

  // What the threads of a process of the rank wait for, as lines, as far as it has
  // answered within `limit` of real time; nullopt: it has not begun to. A signal may
  // end a wait of the program's: only where the run is about to end.
  std::optional<std::string> AskThreads(pid_t pid,
                                        std::chrono::milliseconds limit) const;

  // The processes of the rank that are connected.
  std::vector<pid_t> pids() const;
  // Bytes of records since the start.
  uint64_t bytes_written() const;

  // The process that issues work for the rank: 0 before one has claimed it. It stays
  // set after that process has ended.
  uint32_t owner_pid() const;
  // Some process of the rank is connected.
  bool connected() const { return !processes_.empty(); }
  // The owner's connection has closed: no more records will come.
  bool ended() const { return ended_; }

  // For GuestServer: a process of the rank came or went.
  void ProcessConnected(uint32_t pid);
  void ProcessDisconnected(uint32_t pid);

 private:
  GuestLink(int memfd, unsigned char* base);
  // True: its thread sleeps.
  bool Fill(uint32_t slot, const AnswerValues& values);
  protocol::Segment* segment() const;
  void Wake(std::atomic<uint32_t>* word) const;
  void GiveRoomBack();
  // The position behind which a thread waits for its turn, and may get it; 0: none
  // does.
  uint64_t TurnWanted() const;
  void FreeWaitsOf(uint32_t pid);
  void CallOff(protocol::SessionState state, const std::string& reason);

  const int memfd_;
  unsigned char* const base_;  // segment, then the ring once more
  uint64_t consumed_ = 0;
  uint64_t given_back_ = 0;    // what the guest knows of consumed_
  uint32_t current_size_ = 0;  // of the record that Next() returned
  absl::Status status_;
  std::map<uint32_t, int> processes_;  // pid -> open connections
  bool ended_ = false;
  int functions_running_ = 0;
  bool others_slept_ = false;  // a sleep of another process has been granted
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_CONNECT_GUEST_LINK_H_
