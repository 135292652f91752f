// The memory that a rank's processes share with the emulator, and how they get it.
//
// Include base/guest/protocol.h, which explains the words and the rules.
//
// Thread rule: one writer and one reader of the ring; the other fields say who writes.

#ifndef VRANK_BASE_GUEST_PROTOCOL_SEGMENT_H_
#define VRANK_BASE_GUEST_PROTOCOL_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace vrank::protocol {

inline constexpr uint64_t kMagic = 0x314b4e4152565256;  // "VRVRANK1"
inline constexpr uint32_t kVersion = 27;

inline constexpr size_t kRingBytes = size_t{4} << 20;  // mapped twice in a row
inline constexpr size_t kBounceBytes = size_t{1} << 20;
inline constexpr uint32_t kAnswerSlots = 64;
inline constexpr uint32_t kPublishedTokens = 1 << 16;
inline constexpr uint32_t kOtherWaits = 512;

// What a guest must know about the (virtual) GPU; filled from a GPU description.
struct GpuProperties {
  char name[64];
  uint64_t memory_bytes;   // total, as cudaMemGetInfo would say
  uint64_t context_bytes;  // taken by a CUDA context
  uint64_t l2_bytes;
  uint64_t memory_bus_bits;
  uint64_t shared_per_block;
  uint64_t shared_per_block_optin;
  uint64_t shared_per_multiprocessor;
  uint64_t constant_bytes;
  uint32_t compute_major, compute_minor;
  uint32_t multiprocessors;
  uint32_t registers_per_multiprocessor;
  uint32_t threads_per_multiprocessor;
  uint32_t blocks_per_multiprocessor;
  uint32_t clock_khz, memory_clock_khz;
  uint32_t nvlinks;
  uint32_t multicast;  // NVLink SHARP (multicast objects) supported
};

// Host cost of a call, in ns. Rows of base/guest/host_costs.def, in that order.
inline constexpr size_t kMaxHostCosts = 64;

// How much time passes between the calls of threads that issue work.
enum class HostTime : uint32_t {
  kModelled = 0,  // none
  kMeasured = 1,  // the CPU time that the thread used
  kRecorded = 2,  // what RecordedGaps says
};

// Fixed for the life of a rank; written by the emulator before the guest connects.
struct Settings {
  uint32_t rank, world_size, local_rank, local_world_size;
  uint32_t played_ranks;  // of the world, those that are not run for real
  uint32_t devices;       // visible to the process
  uint32_t launch_queue_depth;
  // Bit i: host_costs_ns[i] is a default without a source that nobody vouches for.
  uint64_t assumed_host_costs;
  int64_t launch_latency_ns;      // host call to earliest start on the device
  int64_t realtime_at_start_ns;   // CLOCK_REALTIME at virtual time 0
  int64_t monotonic_at_start_ns;  // CLOCK_MONOTONIC at virtual time 0
  uint64_t communicator_bytes;    // as CommunicatorMemory's; others at the end
  uint64_t communicator_peer_bytes;
  uint32_t host_costs_ns[kMaxHostCosts];
  GpuProperties gpu;
  uint64_t communicator_single_bytes, communicator_tree_bytes;
  uint64_t communicator_nvls_bytes, communicator_nvls_members;
  HostTime host_time;
  uint32_t records_gaps;  // 1: gaps are metered and sent (HostGaps)
  // Nanoseconds per 2^32 steps of the time stamp counter; 0: it cannot be used.
  uint64_t ns_per_2_32_ticks;
  // A measured gap takes ns * 1'000'000 / this. Recorded ones are scaled already.
  uint64_t host_speed_millionths;
};

// Other ranks run for real, too.
inline bool HasRealPeers(const Settings& settings) {
  return settings.world_size > settings.played_ranks + 1;
}

enum class SlotState : uint32_t { kFree = 0, kAsked = 1, kSleeping = 2, kAnswered = 3 };

// Added to kAsked and kSleeping where the waiting thread had counted in
// running_issuers: whoever answers raises it again first.
inline constexpr uint32_t kIssuerWaits = 0x100;

struct alignas(64) AnswerSlot {
  std::atomic<uint32_t> state;  // SlotState, kIssuerWaits; the futex word
  uint32_t complete;            // HostQuery: 1 or 0
  int64_t host_ns;              // the host clock after the call
  int64_t end_ns;               // end (or, for a callback, start) of the target
  uint64_t retired_launches;    // launches 0 .. retired-1 have ended by host_ns
  uint64_t value;
  // 1: the rank's program went on while this question waited, since another thread of
  // the process had issued more. The thread moves the clock to the end by itself.
  uint32_t beside;
  uint32_t reserved;
};

// The end of a token's generation, once the engine knows it. The writer sets `end_ns`
// and then `generation` (release); a reader that finds the generation it wants
// (acquire) has the end. Generations count kRecordToken of that token from 1.
struct PublishedToken {
  std::atomic<uint32_t> generation;
  uint32_t reserved;
  std::atomic<int64_t> end_ns;
};

// kFailed: a rank has failed, so only FetchPayload is answered; processes may go on for
// a while, to notice it and to end. kAborting: whoever asks is ended.
enum class SessionState : uint32_t { kRunning = 0, kAborting = 1, kFailed = 2 };

// In `turn_wanted`: not a position of the ring.
inline constexpr uint64_t kTurnOfWait = uint64_t{1} << 63;

struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;  // sizeof(Segment), a second guard against a mixed build
  Settings settings;

  alignas(64) std::atomic<uint32_t> owner_pid;  // the process that issues work; 0: none
  std::atomic<uint32_t> session_state;          // SessionState
  char abort_reason[256];                       // valid unless running

  // Guest clock: only for processes of this rank that want to read it.
  alignas(64) std::atomic<int64_t> host_now_ns;

  // Ring positions count bytes since the start; position % kRingBytes is the offset.
  alignas(64) std::atomic<uint64_t> written;
  // Threads that issue work and are not waiting in the emulator. The emulator raises it
  // again when it answers, so zero with an empty ring means: this rank can do nothing.
  std::atomic<int32_t> running_issuers;
  alignas(64) std::atomic<uint64_t> consumed;
  // Of what was written before this position, the emulator has answered all that can be
  // answered now.
  std::atomic<uint64_t> settled;
  std::atomic<uint32_t> guest_waits_for_room;  // futex word
  // Set by the emulator before it sleeps; a guest that takes it back rings the
  // doorbell. 1: ring for a question or a ring that fills up; 2: for any record; 0:
  // awake.
  alignas(64) std::atomic<uint32_t> emulator_sleeps;

  // The earliest limit (a virtual time) at which a wait in the rank's processes ends
  // should nothing else end it. A process takes a number from `tickets`, writes the
  // limit and then its ticket. Where no thread of the whole session can run, the
  // emulator copies the ticket of the earliest limit into `granted_ticket`: it counts
  // as reached. Where a thread that moves the clock sleeps, nothing but time ends that,
  // and it is enough that no other rank can do anything before.
  alignas(64) std::atomic<uint32_t> limit_ticket;  // 0: none
  std::atomic<uint32_t> limit_pid;                 // whose it is
  std::atomic<int64_t> limit_ns;
  std::atomic<uint32_t> limit_sleeps;    // 1: such a thread sleeps until then or longer
  std::atomic<uint32_t> tickets;         // handed out so far
  std::atomic<uint32_t> granted_ticket;  // futex word

  // A thread waits for the answer to a question before this position of the ring, or
  // for what another rank sends (kTurnOfWait and a number), and others that issue work
  // wait for their turn, which is behind it; 0: there is none. Where nobody can bring
  // what it waits for, the emulator copies it into `turn_passed`: they go on without
  // that one.
  alignas(64) std::atomic<uint64_t> turn_wanted;
  std::atomic<uint64_t> turn_passed;
  // Futex word: what threads of the rank wait for each other for is another one now.
  std::atomic<uint32_t> thread_changes;

  // Of the processes that move no clock, see OtherWait. The clock has come to
  // `reached_ns` where it is behind that: the emulator sets it, and the owner spends
  // what is between with what it does next.
  alignas(64) std::atomic<int64_t> reached_ns;
  std::atomic<int64_t> others_gate_ns;   // no OtherWait ends before
  std::atomic<uint32_t> others_stirred;  // 1: some of them may run
  std::atomic<uint32_t> others_turn;     // how often the owner has gone on
  // Whose limit was reached last, and what follows from it, finds the clock there while
  // `others_reached_turn` is others_turn + 1.
  std::atomic<uint32_t> others_reached_turn;
  std::atomic<int64_t> others_reached_ns;
  std::atomic<uint32_t> others_time_uses;  // their sleeps and readings of the clock
  std::atomic<uint64_t> others_ticks;  // looks of theirs, in a wait, that found nothing
  // Threads that sleep for a moment, to look again at somebody whom they let run: the
  // rank is not at rest, whatever the kernel says of its threads.
  std::atomic<uint32_t> nappers;

  // Gaps of the rank by the depth at which RecordedGaps knew them (kAnchorDepths); the
  // last element counts unknown gaps, which take no time.
  alignas(64) std::atomic<uint64_t> gaps_found[5];
  // What threads that issue work computed between calls, as metered: CPU time of
  // this machine. 0 with HostTime::kModelled.
  std::atomic<int64_t> program_ns;

  // Bit i: another process of the node may hold memory of its GPU i, so AskMemory comes
  // before memory of it is taken. The emulator sets it while the rank waits, for good.
  std::atomic<uint32_t> shared_gpus;

  // CPU time of the rank's processes that went into a GPU's work
  // (Channel::NoteGpuWork).
  std::atomic<int64_t> gpu_work_ns;
};

// A limit of another process is reached.
inline void ReachForOthers(SegmentHeader* header, int64_t limit_ns) {
  header->others_reached_ns.store(limit_ns);
  header->others_reached_turn.store(header->others_turn.load() + 1);
}

// A wait with a limit of a thread in a process of the rank that moves no clock. Whoever
// finds the clock there, the owner or (where no thread can run) the emulator, adds 1 to
// `turn`, which is even until then; the waiting thread makes it even again, a larger
// one, when it has noticed.
struct OtherWait {
  std::atomic<uint32_t> pid;      // whose it is; 0: free
  std::atomic<uint32_t> turn;     // futex word
  std::atomic<int64_t> limit_ns;  // 0: none yet, or none any more

  // What it waits for; 0: for nothing, or it is about to wake up.
  int64_t Limit() const {
    return pid.load() == 0 || turn.load() % 2 != 0 ? 0 : limit_ns.load();
  }
  // True: a thread may sleep on `turn`, and is to be woken.
  bool Free() {
    limit_ns.store(0);
    const uint32_t before = turn.load();
    turn.store((before | 1) + 1);
    pid.store(0);
    return before % 2 != 0;
  }
};

// Who vouches for a time, as graph::Source.
enum class TimeSource : uint32_t {
  kModelled = 0,
  kAssumed = 1,
  kRecorded = 2,
  kMeasured = 3
};
inline constexpr size_t kTimeSources = 4;

// What the emulator publishes about records, for a profiler in the process
// (ActivityWish::kStart). Times are host clock values; records count from 1.
enum class ActivityEntryKind : uint32_t {
  // Record `record` has passed the host, whose clock is end_ns after it; the host's own
  // time before it began at begin_ns. One per record, in order.
  kHost = 0,
  // The three below precede their record's kHost (or, kWork, come at any time).
  kWait = 1,       // a host wait: from begin_ns to end_ns
  kQueueFull = 2,  // the launch waited for a place in the queue, likewise
  kWork = 3,       // what a launch record does on its lane; a point for kTimed tokens
};

struct ActivityEntry {
  uint64_t record;
  ActivityEntryKind kind;
  TimeSource source;  // kHost: of the host's own time; kWork: of how long it takes
  int64_t begin_ns;
  int64_t end_ns;
};

// A ring whose pages exist once they are used: untraced ranks pay nothing.
inline constexpr uint64_t kActivityEntries = 1 << 16;
struct ActivityRing {
  alignas(64) std::atomic<uint64_t> written;  // entries so far; by the emulator
  std::atomic<uint32_t> wakes;  // futex word: bumped for those that wait for entries
  std::atomic<uint32_t> waiting;
  alignas(64) std::atomic<uint64_t> consumed;  // by the reader
  alignas(64) ActivityEntry entries[kActivityEntries];
};

// A communicator of the rank in which a member has been lost while the job goes on
// (`vrank emulate --survive-failures`).
struct BrokenCommunicator {
  uint32_t number;
  char reason[252];
};
inline constexpr uint32_t kMaxBrokenCommunicators = 1024;
// An entry is written before `count` (release) tells of it, and then stays as it is.
struct BrokenCommunicators {
  alignas(64) std::atomic<uint32_t> count;
  BrokenCommunicator entries[kMaxBrokenCommunicators];
};

// How long gaps take, by key (AnchorHistory): an open hash table with linear probing,
// which the emulator fills before the rank starts. Its pages exist once they are used.
//
// Of a gap that can end at anchors of several kinds, `ns` is what it takes in any case,
// and `rest_ns` what more it takes if it ends at a kind that was not recorded. What
// more it takes at each recorded kind is `ns` of another entry, by KeyOfEnd.
struct RecordedGap {
  static constexpr int64_t kEndsAlike = -1;
  uint64_t key;  // 0: free
  int64_t ns;
  int64_t rest_ns = kEndsAlike;
};
inline constexpr uint32_t kRecordedGaps = 1 << 18;
struct RecordedGaps {
  RecordedGap entries[kRecordedGaps];
};

// A gap of a thread whose process moves no clock (HostGap, HostGaps), where host time
// is recorded.
struct FollowerGap {
  std::atomic<uint64_t> number;  // from 1 on: the entry is the gap of that number
  uint64_t role, anchor, end;
  int64_t ns;
  uint32_t thread;
};
inline constexpr uint32_t kFollowerGaps = 1 << 16;
// A ring: many threads write, the emulator reads. What finds no room is not recorded.
struct FollowerGaps {
  alignas(64) std::atomic<uint64_t> begun;
  alignas(64) std::atomic<uint64_t> taken;
  FollowerGap entries[kFollowerGaps];
};

// Asks a process of the rank what its threads wait for. Only a process that catches the
// signal (SigCgt in /proc/PID/status) is sent it, and only where the run is about to
// end.
inline constexpr int kAskThreadsSignal = 52;  // SIGRTMIN + 18
inline constexpr size_t kThreadReportBytes = 8192;
// One process answers at a time.
struct ThreadReport {
  alignas(64) std::atomic<uint32_t> asked;  // questions so far; by the emulator
  std::atomic<uint32_t> told;     // number of the question that is answered completely
  std::atomic<uint32_t> bytes;    // of `text`, which may grow until then
  char text[kThreadReportBytes];  // lines, without an end of its own
};

struct Segment {
  SegmentHeader header;
  AnswerSlot answers[kAnswerSlots];
  BrokenCommunicators broken;
  ThreadReport threads;
  OtherWait other_waits[kOtherWaits];
  PublishedToken published[kPublishedTokens];
  alignas(4096) unsigned char bounce[kBounceBytes];
  alignas(4096) ActivityRing activity;
  alignas(4096) RecordedGaps gaps;
  alignas(4096) FollowerGaps follower_gaps;
  // The ring follows at the next page boundary, kRingBytes long.
};

inline constexpr size_t kRingOffset = (sizeof(Segment) + 4095) / 4096 * 4096;
inline constexpr size_t kSegmentBytes = kRingOffset + kRingBytes;

// A guest connects to the abstract unix socket named in VRANK_SOCKET and sends a Hello;
// the reply carries two file descriptors: the segment's memfd, and the doorbell (an
// eventfd). Nothing more is ever sent to the guest: the socket's end of file means that
// the emulator is gone.
struct Hello {
  uint64_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t rank = 0;
  uint32_t pid = 0;
  uint32_t segment_bytes = kSegmentBytes;
  // 0: a process that has the segment already and only wants to be known, and to end
  // with the session. Nothing is sent to it.
  uint32_t wants_reply = 1;
  uint32_t reserved = 0;
};

struct HelloReply {
  uint32_t accepted;  // 1, with two descriptors; 0, with a reason
  char reason[252];
};

}  // namespace vrank::protocol

#endif  // VRANK_BASE_GUEST_PROTOCOL_SEGMENT_H_
