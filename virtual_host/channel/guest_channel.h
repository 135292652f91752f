// The process's Channel: host clock, names, records and questions of one rank.
//
// The host clock of a rank lives in the segment, where every process of the rank can
// read it. One process, the *owner* (ClaimRank), moves it: its issuing threads by what
// they spend, answers of the emulator by what a wait took. Until there is an owner,
// main threads that sleep move it themselves, and what has passed by then becomes part
// of the owner's first record. What a process spends otherwise by then (on reading
// clocks) is its own: a shell or a debugger that starts the program spends none of the
// program's time.
//
// Why the clock is a base plus what was spent: an answer gives the clock at its
// question; what other threads have spent since is added on top, so the order in which
// two answers are picked up changes nothing.
//
// Thread rule: as Channel says; clock reads are legal in signal handlers.

#ifndef VRANK_VIRTUAL_HOST_CHANNEL_GUEST_CHANNEL_H_
#define VRANK_VIRTUAL_HOST_CHANNEL_GUEST_CHANNEL_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/guest/activity_channel.h"
#include "base/guest/channel.h"
#include "base/guest/time_stamp.h"
#include "schedule/policy.h"
#include "virtual_host/channel/activity_reader.h"
#include "virtual_host/channel/allocator_blocks.h"
#include "virtual_host/channel/allocator_peaks.h"
#include "virtual_host/channel/clock_log.h"
#include "virtual_host/channel/connection.h"
#include "virtual_host/channel/ring_writer.h"
#include "virtual_host/turns/answers.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/issuing_threads.h"
#include "virtual_host/turns/other_processes.h"
#include "virtual_host/turns/thread_clock.h"
#include "virtual_host/turns/thread_scheduler.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

class GuestChannel final : public Channel, private ActivityChannel {
 public:
  // `own_time`: see IssuingThreads.
  explicit GuestChannel(const Connection& connection, bool own_time = false);

  // Channel.
  const protocol::Settings& settings() const override { return header_.settings; }
  TimePoint Now() override;
  void LetHelpersRun() override;
  void SetThreadClock(TimePoint time) override;
  using Channel::Spend;
  void Spend(Duration duration) override { Spend(duration, /*assumed=*/false); }
  void SpendAssumed(Duration duration) override { Spend(duration, /*assumed=*/true); }
  void FollowWallClock(TimePoint wall) override;
  Answer Collect(uint32_t slot) override;
  uint32_t Name(std::string_view text) override;
  std::optional<TimePoint> PublishedEnd(uint32_t token, uint32_t generation) override;
  bool ClockIsLocal() override;
  uint64_t launches() const override { return launches_.load(); }
  const unsigned char* bounce() const override { return segment_->bounce; }
  void LockBounce() override { bounce_lock_.Lock(); }
  void UnlockBounce() override { bounce_lock_.Unlock(); }
  bool detached() const override { return detached_.load(std::memory_order_relaxed); }
  bool aborting() const override {
    return header_.session_state.load(std::memory_order_acquire) !=
           static_cast<uint32_t>(protocol::SessionState::kRunning);
  }
  const char* failure() const override { return header_.abort_reason; }
  const char* BrokenBy(uint32_t communicator) const override;
  int64_t ThreadCpuNs() const override { return ThreadClock::Cpu(); }
  void NoteGpuWork(int64_t cpu_ns) override {
    header_.gpu_work_ns.fetch_add(cpu_ns, std::memory_order_relaxed);
  }
  bool SharesGpu(uint32_t node_device) const override {
    return node_device < 32 &&
           (header_.shared_gpus.load(std::memory_order_relaxed) >> node_device & 1) !=
               0;
  }
  bool ClaimRank() override;
  void IssueSideBySide() override {
    side_by_side_.store(true);
    waits_beside_.store(true);
  }
  ActivityChannel* activity() override { return this; }
  void EnterCall(const char* function) override;
  void NameCall(const char* function) override;
  void LeaveCall() override;

  // nullptr: nobody listens.
  ProfiledGpu* profiled_gpu() const {
    return profiled_gpu_.load(std::memory_order_acquire);
  }
  // The host clock as the calling thread sees it, without asking anyone: the process's,
  // or a helper's own.
  TimePoint Peek() const;
  // The process's, whoever asks.
  TimePoint ProcessNow() const {
    return TimePoint::FromNanoseconds(
        std::max(header_.host_now_ns.load(std::memory_order_relaxed),
                 header_.reached_ns.load(std::memory_order_relaxed)) +
        own_ns_.load(std::memory_order_relaxed));
  }
  // The clock of what another process has woken up: while the owner stops for it, the
  // limit that has ended there last.
  TimePoint OthersNow() const;
  // Whether the calling thread's waits and reads move the clock: an issuing thread, or,
  // before the rank has an owner, a main thread.
  bool DrivesClock() const;
  // The calling thread reads the clock. What that costs a driving thread is spent with
  // whatever it does next, unless that is a wait whose limit was computed from the
  // reading: how often a thread waits for a lock (Python's interpreter lock, each 5 ms)
  // depends on what other threads do, and must not be seen in the rank's time. For the
  // same reason those that code makes which waits (python_code.h) cost nothing, up to
  // kFreeReadings of them in a row: a loop that waits for a time by them must get
  // there. Those of PyTorch's libraries (library_code.h) cost nothing up to
  // kFreeLibraryReadings of them, and show the clock as it is: a profiler's window
  // begins with one of many. Readings of a compiler and of threads that drive no clock
  // never cost anything. Where such a thread reads the same time over and over, as one
  // that looks whether a limit of zero is over (multiprocessing.connection.wait), each
  // further reading shows a later one; in a process that moves no clock (a data
  // loader's worker) each of the program's does from the first on, since a meter may
  // divide by what passed between two. That is the thread's own view, and moves no
  // clock.
  //
  // Python's code that polls (kPoll) rounds what is left of a wait up to a whole
  // millisecond: one more wherever no time has passed since it computed the end, or
  // where it looks at the very end. Each of its readings shows a nanosecond more than
  // the one before, beside the clock that others are shown.
  enum class Reader { kProgram, kWait, kPoll, kLibrary, kCompiler };
  TimePoint Read(Reader reader);
  void SettleReading();
  // The latest reading gave a wait its limit.
  void DropReading() {
    thread_state.has_read = false;
    thread_state.shown_ns -= std::exchange(thread_state.stepped_ns, 0);
    LookAnew();
  }
  // What it is for is not there, and the thread does not wait.
  void DropReadingInVain() {
    if (thread_state.has_read && thread_state.unpaid < schedule::kFreeReadings) {
      thread_state.has_read = false;
      ++thread_state.unpaid;
    }
  }
  // The thread waits: how often it has read the clock before is no matter.
  void LookAnew() {
    thread_state.shown_again = thread_state.unpaid = thread_state.unpaid_library = 0;
  }
  // A driving thread sleeps, for at most that long in real time: the emulator is told
  // the earliest limit of the process. False: a signal ended it.
  bool AwaitGrant(Duration slice);
  // The emulator is told the earliest limit of the process now, and not after a slice
  // of waiting.
  void TellLimit();
  // Moves the clock to `time` on behalf of a driving thread that slept until then.
  void AdvanceTo(TimePoint time);

  // From here on the clock's steps are kept, until ClockLog::Finish.
  void LogClock() { clock_log_.Start(TimeStampCount(), ProcessNow().nanoseconds()); }
  ClockLog& clock_log() { return clock_log_; }

  // What PyTorch's allocator holds of a GPU now. Writes no record, so that it changes
  // no thread's turn: the next launch does.
  void NoteAllocator(uint32_t device, uint64_t allocated, uint64_t reserved) {
    allocator_.Note(device, allocated, reserved);
  }
  // It has given a block to a tensor, or taken it back. Likewise.
  void NoteAllocatorBlock(const protocol::AllocatorBlock& block) {
    blocks_.Note(block);
  }

  ThreadScheduler& scheduler() { return scheduler_; }
  // Whether the rank's clock is moved by this process, or by any so far.
  bool MovesClock() const {
    return !detached() && (owner_.load() || header_.owner_pid.load() == 0);
  }
  // The calling thread where it is a helper of this process, else nullptr.
  HostThread* HelperHere();
  // Likewise where it is one of several that issue work.
  HostThread* IssuerHere() const {
    return scheduler_.SeveralIssue() && DrivesClock() ? Turn() : nullptr;
  }
  // Either, whose waits are to be known.
  HostThread* WaiterHere() {
    HostThread* const issuer = IssuerHere();
    return issuer != nullptr ? issuer : HelperHere();
  }
  // Where the calling thread drives the clock, it has a place among those that issue
  // work from now on, though it may have issued none yet.
  void TakePlace();
  // The thread that takes no part in virtual time (ActivityChannel::HideThread), or 0.
  pid_t hidden_tid() const { return hidden_tid_.load(std::memory_order_relaxed); }
  // That place, or nullptr.
  static HostThread* Turn() { return thread_state.turn; }
  // No thread of the session can run: the limits of waits up to this one are reached.
  void Reach(TimePoint limit);

  // From here on this process moves no clock and issues no work: it only watches, and
  // its own waits take real time.
  void StandAside() {
    watches_.store(true);
    detached_.store(true, std::memory_order_relaxed);
  }

  // --- For a process of the rank whose clock another one moves
  // Whether the calling thread's waits end by that clock.
  bool FollowsClock() const {
    return thread_state.inside == 0 && !watches_.load() && !MovesClock();
  }
  bool OwnerLives() const;
  protocol::Segment* segment() const { return segment_; }
  // The calling thread is about to do what others may notice: an anchor. What it has
  // computed passes first, where host time does.
  void Act(const char* function) {
    if (follows_program() && FollowsClock()) [[unlikely]]
      ActOfFollower(function);
  }
  // It has read something: recorded time of the gap passes before it continues.
  void PayRecorded() {
    if (follows_program() && FollowsClock()) [[unlikely]]
      PayOfFollower();
  }
  // It is about to post a semaphore. The thread that gets it is due no earlier than the
  // poster. Measured time only, and none passes here: Python posts semaphores with its
  // interpreter lock held.
  void Post(const void* semaphore) {
    if (follows_program() && FollowsClock()) [[unlikely]]
      PostOfFollower(semaphore);
  }
  // It has got one.
  void Got(const void* semaphore) {
    if (follows_program() && FollowsClock()) [[unlikely]]
      GotOfFollower(semaphore);
  }
  // What to add to the segment's clock for this process's.
  Duration own_time() const { return Duration::Nanoseconds(own_ns_.load()); }
  // The calling thread's limit was reached: this is its clock until the owner goes on.
  void ShowReached(TimePoint limit);
  // It sleeps, or its program reads the clock.
  void NoteUseOfTime() {
    if (FollowsClock())
      header_.others_time_uses.fetch_add(1);
  }
  // A process that the calling thread has waited for has ended: the time that its
  // sleeps took has passed here, too.
  void SpendTimeOfEnded();
  // A process may have been woken, or started, by this one.
  void Stir();
  // The calling thread has created `thread`, which runs first, as do threads that it
  // wakes meanwhile.
  void AwaitStart(HostThread* thread);
  // A helper that may have woken another process, or was woken by one, continues once
  // all of them wait again. Others: no effect.
  void SettleOthersAsHelper();

  // In the child after fork: its records are dropped if the parent issues work.
  void BecomeForkChild();
  // The calling thread ends: it no longer counts as running.
  void ForgetThread();
  // Makes the calling thread the helper that was announced for it.
  void BecomeHelper(HostThread* helper);

 protected:
  void EmitRecord(protocol::Record* record, size_t struct_bytes, const void* tail,
                  size_t tail_bytes, uint32_t* slot) override;
  Answer AskRecord(protocol::Record* record, size_t struct_bytes, uint32_t* slot,
                   const void* tail, size_t tail_bytes) override;

 private:
  // ActivityChannel.
  HostMark Mark() override;
  uint64_t LastRecord() const override;
  size_t Read(protocol::ActivityEntry* out, size_t capacity) override;
  void Await(bool for_entries, Duration patience) override;
  void WakeReaders() override { activity_reader_.WakeReaders(); }
  void HideThread() override;
  void SettleLoggedClock() override {
    if (clock_log_.recording())
      Now();
  }
  void SetProfiledGpu(ProfiledGpu* listener) override {
    profiled_gpu_.store(listener, std::memory_order_release);
  }

  void Spend(Duration duration, bool assumed);
  void CountIssuers();
  struct LeftBehind {
    int helpers = 0, processes = 0;
  };
  // A safe point: see LetHelpersRun and ThreadScheduler::BeginStop.
  void Stop(ThreadScheduler::TurnEnd end);
  LeftBehind StopFor(TimePoint now, HostThread* self, ThreadScheduler::TurnEnd end);
  LeftBehind LetAllRun(TimePoint now, HostThread* self);
  void LetOthersRun(TimePoint now, HostThread* self, LeftBehind* left);
  // What a question gets once the session has failed.
  Answer AnswerAfterFailure(const protocol::Record& record);
  Answer FetchAfterFailure(protocol::FetchPayload fetch);
  void NoteCommunicator(const protocol::Record& record);  // REQUIRES: the lock
  // A wait that holds up the calling thread only.
  Answer AskBeside(protocol::HostWait wait);
  // Another thread sleeps, or waits with a limit, which may be reached before a wait of
  // the calling thread ends, and then issues work, as far as is known.
  bool AnotherHasLimit();
  // The calling thread is about to issue its first work.
  void NoteLateJoin();
  Answer AskFromInside(protocol::Record* record, size_t struct_bytes, uint32_t* slot,
                       const void* tail, size_t tail_bytes);
  // --- The program's own time (guest_channel_program.cc)
  void FollowProgram();
  void ForgetProgram();
  void BeginGap();
  void ActOfFollower(const char* function);
  void PayOfFollower();
  void PostOfFollower(const void* semaphore);
  void GotOfFollower(const void* semaphore);
  std::atomic<int64_t>* PostedDue(const void* semaphore);
  void BecomeFollower();
  void AwaitThreadEnd();  // ForgetThread is called there
  void SpendRest();
  void SendFollowerGap();
  void PayOwed();
  void SpendProgram(int64_t ns);  // REQUIRES: lock_ held
  void SpendGap(int64_t ns);
  void SendGapTime();
  void SendGaps();
  void SendBatch(ProgramTime* program);
  void RefineCall(const protocol::Record& record);

  // The functions with REQUIRES need the lock.
  void MarkIssuing();
  void SpendLocked(Duration duration, bool assumed);
  void MoveClock(Duration duration, bool assumed);
  void ReachLocked(int64_t to_ns, bool for_others);
  // The emulator has moved the clock for another process (reached_ns): it is spent.
  void SpendForOthers();
  void SpendWaited(int64_t end_ns);
  void SendHostTime();
  void SendAllocatorPeaks();
  void SendAllocatorBlocks();
  uint32_t TakeSlot(bool issuer);  // may let go of the lock for a while
  void Append(protocol::Record* record, size_t struct_bytes, const void* tail,
              size_t tail_bytes, bool question);
  // Answers "not yet" where an earlier answer has said so until later than now.
  std::optional<Answer> AnswerByBound(protocol::HostQuery* query);
  void NoteBound(const protocol::HostQuery& query, const Answer& answer, bool alone);
  void RaiseClock(int64_t to_ns);
  void NoteStep();
  // What Reach has raised the clock to beyond `to_ns` has passed for the issuing
  // threads, too: the emulator is told with the next record.
  void SpendReached(int64_t to_ns);
  void RaiseForKnownWait(const protocol::HostWait& wait);
  void CountGeneration(uint32_t token);

  protocol::Segment* const segment_;
  protocol::SegmentHeader& header_;
  FutexLock lock_;
  FutexLock bounce_lock_;
  RingWriter ring_;
  Answers answers_;
  ActivityReader activity_reader_;
  AllocatorPeaks allocator_;
  AllocatorBlocks blocks_;
  std::atomic<ProfiledGpu*> profiled_gpu_{nullptr};
  mutable ThreadScheduler scheduler_;
  OtherProcesses others_;
  IssuingThreads issuing_;
  ClockLog clock_log_;

  std::atomic<bool> owner_{false};  // this process issues the rank's work
  std::atomic<bool> side_by_side_{false};
  // Threads wait for each other's work: each of their waits holds up itself alone.
  std::atomic<bool> waits_beside_{false};
  // A helper has begun to issue work late, since the clock had passed its limit by a
  // wait for the GPU: another one may. NoteLateJoin.
  std::atomic<bool> joins_late_{false};
  std::atomic<bool> detached_{false};
  std::atomic<bool> watches_{false};
  std::atomic<pid_t> hidden_tid_{0};
  // Spent by this process while the rank had no owner; 0 once this process is it.
  std::atomic<int64_t> own_ns_{0};
  // Where no clock is moved here: until when the thread that posted a semaphore last
  // has computed, as measured; by a hash of where the semaphore is.
  std::array<std::atomic<int64_t>, 64> posted_due_ns_{};
  int64_t spent_ns_ = 0;   // by issuing threads, since the rank began
  int64_t unsent_ns_ = 0;  // the part of it that no record carries yet
  bool unsent_is_assumed_ = false;
  int64_t unsent_gaps_ns_ = 0;  // likewise of spent_ns_: the program's own time
  // From where to where Reach has raised the clock while all issuing threads waited,
  // and whether it was for another process.
  int64_t reached_from_ns_ = 0, reached_ns_ = 0;
  bool reached_for_others_ = false;
  std::atomic<uint64_t> launches_{0};
  std::atomic<uint64_t> retired_{0};      // as the latest answer said
  std::atomic<uint64_t> exact_until_{0};  // launches() at the latest answer

  std::vector<uint32_t> generations_;  // by token: kRecordToken written so far
  std::set<uint32_t> communicators_;   // of several ranks, not released

  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>> names_;
  std::vector<uint64_t> name_hashes_{0};  // by number; where the program is followed

  // What was asked about last has not ended before `until_ns`, as long as the process
  // writes nothing but queries and wakes nobody up.
  struct QueryBound {
    protocol::QueryTarget kind = protocol::QueryTarget::kToken;
    uint32_t target = protocol::kNone;
    std::atomic<int64_t> until_ns{0};
  };
  QueryBound bound_;  // under the lock, but for its end
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_CHANNEL_GUEST_CHANNEL_H_
