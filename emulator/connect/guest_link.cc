#include "emulator/connect/guest_link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <fstream>
#include <new>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/guest/gap_table.h"

namespace vrank::emulator {
namespace {

using protocol::kRingBytes;
using protocol::SegmentHeader;

// Room is given back in steps of this size, and whenever the ring is found empty: one
// shared store per step, not per record.
constexpr uint64_t kGiveBackStep = kRingBytes / 16;

absl::Status SystemError(const char* what) {
  return absl::InternalError(fmt::format(
      "shared segment: {}: {}; is memory or the limit on open files used up?", what,
      strerror(errno)));
}

// Without a handler the signal would end the process.
bool CatchesQuestion(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigCgt:"))
      return (std::stoull(line.substr(sizeof "SigCgt:" - 1), nullptr, 16) >>
                  (protocol::kAskThreadsSignal - 1) &
              1) != 0;
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuestLink>> GuestLink::Create(
    const protocol::Settings& settings) {
  const int fd = memfd_create("vrank", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return SystemError("memfd_create");
  // Sealed, so that no process can shrink it under the others.
  if (ftruncate(fd, protocol::kSegmentBytes) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    absl::Status status = SystemError("setting its size");
    close(fd);
    return status;
  }
  void* base = mmap(nullptr, protocol::kSegmentBytes + kRingBytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* bytes = static_cast<unsigned char*>(base);
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  if (base == MAP_FAILED ||
      mmap(base, protocol::kSegmentBytes, kProtection, MAP_SHARED | MAP_FIXED, fd, 0) ==
          MAP_FAILED ||
      mmap(bytes + protocol::kSegmentBytes, kRingBytes, kProtection,
           MAP_SHARED | MAP_FIXED, fd, protocol::kRingOffset) == MAP_FAILED) {
    absl::Status status = SystemError("mmap");
    close(fd);
    return status;
  }
  // A new memfd is all zero, which is the starting value of everything else.
  auto* header = &reinterpret_cast<protocol::Segment*>(base)->header;
  header->magic = protocol::kMagic;
  header->version = protocol::kVersion;
  header->header_bytes = sizeof(protocol::Segment);
  header->settings = settings;
  return std::unique_ptr<GuestLink>(new GuestLink(fd, bytes));
}

GuestLink::GuestLink(int memfd, unsigned char* base) : memfd_(memfd), base_(base) {}

GuestLink::~GuestLink() {
  munmap(base_, protocol::kSegmentBytes + kRingBytes);
  close(memfd_);
}

void GuestLink::PlayGaps(std::span<const protocol::RecordedGap> gaps) {
  for (const protocol::RecordedGap& gap : gaps)
    *FindGapEntry(&segment()->gaps, gap.key) = gap;
}

int64_t GuestLink::gpu_work_ns() const {
  return segment()->header.gpu_work_ns.load(std::memory_order_relaxed);
}

int64_t GuestLink::program_ns() const {
  return segment()->header.program_ns.load(std::memory_order_relaxed);
}

bool GuestLink::TakeFollowerGap(protocol::HostGaps* batch, protocol::HostGap* gap) {
  protocol::FollowerGaps& gaps = segment()->follower_gaps;
  const uint64_t taken = gaps.taken.load(std::memory_order_relaxed);
  const protocol::FollowerGap& next = gaps.entries[taken % protocol::kFollowerGaps];
  if (next.number.load(std::memory_order_acquire) != taken + 1)
    return false;
  *batch = {.record = {.kind = protocol::RecordKind::kHostGaps},
            .role = next.role,
            .end = next.end,
            .thread = next.thread,
            .count = 1,
            .preempted = 0};
  *gap = {.anchor = next.anchor, .ns = next.ns};
  gaps.taken.store(taken + 1, std::memory_order_release);
  return true;
}

std::vector<uint64_t> GuestLink::gaps_found() const {
  std::vector<uint64_t> found;
  for (const std::atomic<uint64_t>& depth : segment()->header.gaps_found)
    found.push_back(depth.load());
  return found;
}

protocol::Segment* GuestLink::segment() const {
  return reinterpret_cast<protocol::Segment*>(base_);
}

std::optional<std::string> GuestLink::AskThreads(
    pid_t pid, std::chrono::milliseconds limit) const {
  constexpr std::chrono::milliseconds kBetweenLooks(2);
  if (!CatchesQuestion(pid))
    return std::nullopt;
  protocol::ThreadReport& report = segment()->threads;
  report.bytes.store(0);
  const uint32_t number = report.asked.fetch_add(1) + 1;
  if (kill(pid, protocol::kAskThreadsSignal) != 0)
    return std::nullopt;
  const auto until = std::chrono::steady_clock::now() + limit;
  while (report.told.load(std::memory_order_acquire) != number &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(kBetweenLooks);
  const size_t bytes = report.bytes.load(std::memory_order_acquire);
  return bytes == 0 ? std::nullopt
                    : std::optional(std::string(report.text,
                                                std::min(bytes, sizeof report.text)));
}

const protocol::Settings& GuestLink::settings() const {
  return segment()->header.settings;
}

const protocol::Record* GuestLink::Next() {
  SegmentHeader& header = segment()->header;
  while (status_.ok()) {
    const uint64_t written = header.written.load(std::memory_order_acquire);
    if (written == consumed_) {
      GiveRoomBack();
      return nullptr;
    }
    const auto* record = reinterpret_cast<const protocol::Record*>(
        base_ + protocol::kRingOffset + consumed_ % kRingBytes);
    const uint64_t waiting = written - consumed_;
    const uint32_t size = record->size;
    if (size < sizeof(protocol::Record) || size % 8 != 0 || size > waiting ||
        waiting > kRingBytes || record->kind >= protocol::RecordKind::kCount) {
      status_ = absl::DataLossError(fmt::format(
          "rank {}: its process wrote a record of kind {} and {} bytes, which is none; "
          "memory of the process is corrupt",
          settings().rank, static_cast<int>(record->kind), size));
      return nullptr;
    }
    current_size_ = size;
    if (record->kind != protocol::RecordKind::kPad)
      return record;
    Consume();
  }
  return nullptr;
}

void GuestLink::Consume() {
  consumed_ += std::exchange(current_size_, 0);
  if (consumed_ - given_back_ >= kGiveBackStep)
    GiveRoomBack();
}

void GuestLink::GiveRoomBack() {
  if (given_back_ == consumed_)
    return;
  given_back_ = consumed_;
  SegmentHeader& header = segment()->header;
  // Sequentially consistent with the guest's "I wait" followed by its look at consumed.
  header.consumed.store(consumed_, std::memory_order_seq_cst);
  if (header.guest_waits_for_room.exchange(0, std::memory_order_seq_cst) != 0)
    Wake(&header.guest_waits_for_room);
}

uint64_t GuestLink::BytesWaiting() const {
  return segment()->header.written.load(std::memory_order_seq_cst) - consumed_;
}

void GuestLink::Answer(uint32_t slot, const AnswerValues& values) {
  const SlotAnswer answer{slot, values};
  Answer(std::span(&answer, 1));
}

void GuestLink::Answer(std::span<const SlotAnswer> answers) {
  uint64_t asleep = 0;
  for (const SlotAnswer& answer : answers)
    if (Fill(answer.slot, answer.values))
      asleep |= uint64_t{1} << answer.slot;
  for (uint32_t slot = 0; asleep != 0; ++slot, asleep >>= 1)
    if ((asleep & 1) != 0)
      Wake(&segment()->answers[slot].state);
}

bool GuestLink::Fill(uint32_t slot, const AnswerValues& values) {
  if (slot >= protocol::kAnswerSlots)
    return false;  // kNoSlot: nobody waits
  protocol::AnswerSlot& answer = segment()->answers[slot];
  answer.host_ns = values.host_ns;
  answer.end_ns = values.end_ns;
  answer.complete = values.complete ? 1 : 0;
  answer.retired_launches = values.retired_launches;
  answer.value = values.value;
  answer.beside = values.beside ? 1 : 0;
  // Raised before the thread can run, and taken back if it was not to be counted: only
  // this thread looks at the number, so it never sees the detour.
  std::atomic<int32_t>& running = segment()->header.running_issuers;
  running.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t before = answer.state.exchange(
      static_cast<uint32_t>(protocol::SlotState::kAnswered), std::memory_order_seq_cst);
  if ((before & protocol::kIssuerWaits) == 0)
    running.fetch_sub(1, std::memory_order_seq_cst);
  const uint32_t state = before & ~protocol::kIssuerWaits;
  return state == static_cast<uint32_t>(protocol::SlotState::kSleeping);
}

void GuestLink::Publish(uint32_t token, uint32_t generation, int64_t end_ns) {
  if (token >= protocol::kPublishedTokens)
    return;
  protocol::PublishedToken& entry = segment()->published[token];
  // A reader that sees the new end beside the old generation must not take it for the
  // old one's: the generation is invalid (0) while the end changes.
  entry.generation.store(0, std::memory_order_relaxed);
  entry.end_ns.store(end_ns, std::memory_order_release);
  entry.generation.store(generation, std::memory_order_release);
}

size_t GuestLink::PublishActivity(std::span<const protocol::ActivityEntry> entries) {
  protocol::ActivityRing& ring = segment()->activity;
  const uint64_t written = ring.written.load(std::memory_order_relaxed);
  const uint64_t waiting = written - ring.consumed.load(std::memory_order_acquire);
  // A guest that is out of its mind gets nothing, and stops nobody.
  const uint64_t room =
      waiting > protocol::kActivityEntries ? 0 : protocol::kActivityEntries - waiting;
  const size_t count = std::min<size_t>(entries.size(), room);
  for (size_t i = 0; i < count; ++i)
    ring.entries[(written + i) % protocol::kActivityEntries] = entries[i];
  if (count == 0)
    return 0;
  // Sequentially consistent with a waiting thread's "I wait" followed by its look at
  // written.
  ring.written.store(written + count, std::memory_order_seq_cst);
  if (ring.waiting.load(std::memory_order_seq_cst) != 0) {
    ring.wakes.fetch_add(1, std::memory_order_seq_cst);
    Wake(&ring.wakes);
  }
  return count;
}

unsigned char* GuestLink::bounce() {
  return segment()->bounce;
}

void GuestLink::ShareGpu(uint32_t device) {
  segment()->header.shared_gpus.fetch_or(uint32_t{1} << device);
}

bool GuestLink::Blocked() const {
  // The guest writes its question before it stops counting as running, so running is
  // read before the ring.
  return owner_pid() != 0 && !ended_ && functions_running_ == 0 &&
         running_issuers() <= 0 && BytesWaiting() == 0 && TurnWanted() == 0;
}

int32_t GuestLink::running_issuers() const {
  return segment()->header.running_issuers.load(std::memory_order_seq_cst);
}

int64_t GuestLink::host_now_ns() const {
  const SegmentHeader& header = segment()->header;
  return std::max(header.host_now_ns.load(std::memory_order_relaxed),
                  header.reached_ns.load(std::memory_order_relaxed));
}

void GuestLink::PrepareToSleep(WakeFor wake_for) {
  segment()->header.emulator_sleeps.store(static_cast<uint32_t>(wake_for),
                                          std::memory_order_seq_cst);
}

void GuestLink::NoteSettled() {
  SegmentHeader& header = segment()->header;
  const uint64_t consumed = header.consumed.load(std::memory_order_relaxed);
  if (header.settled.load(std::memory_order_relaxed) != consumed)
    header.settled.store(consumed, std::memory_order_release);
}

void GuestLink::WokeUp() {
  segment()->header.emulator_sleeps.store(0, std::memory_order_relaxed);
}

void GuestLink::Fail(const std::string& reason) {
  CallOff(protocol::SessionState::kFailed, reason);
}

bool GuestLink::Break(uint32_t number, const std::string& reason) {
  protocol::BrokenCommunicators& broken = segment()->broken;
  const uint32_t count = broken.count.load(std::memory_order_relaxed);
  if (count == protocol::kMaxBrokenCommunicators)
    return false;
  protocol::BrokenCommunicator& entry = broken.entries[count];
  entry.number = number;
  const size_t length = std::min(reason.size(), sizeof entry.reason - 1);
  memcpy(entry.reason, reason.data(), length);
  entry.reason[length] = '\0';
  broken.count.store(count + 1, std::memory_order_release);
  return true;
}

void GuestLink::Abort(const std::string& reason) {
  CallOff(protocol::SessionState::kAborting, reason);
}

void GuestLink::CallOff(protocol::SessionState state, const std::string& reason) {
  SegmentHeader& header = segment()->header;
  const size_t length = std::min(reason.size(), sizeof header.abort_reason - 1);
  memcpy(header.abort_reason, reason.data(), length);
  header.abort_reason[length] = '\0';
  header.session_state.store(static_cast<uint32_t>(state), std::memory_order_seq_cst);
  // A thread that goes to sleep right now finds out when its slice of waiting ends.
  for (protocol::AnswerSlot& slot : segment()->answers)
    Wake(&slot.state);
  Wake(&header.guest_waits_for_room);
  segment()->activity.wakes.fetch_add(1, std::memory_order_seq_cst);
  Wake(&segment()->activity.wakes);
  header.thread_changes.fetch_add(1, std::memory_order_seq_cst);
  Wake(&header.thread_changes);
}

void GuestLink::Wake(std::atomic<uint32_t>* word) const {
  // The mapping is shared between processes: no FUTEX_PRIVATE_FLAG.
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint32_t GuestLink::owner_pid() const {
  return segment()->header.owner_pid.load(std::memory_order_seq_cst);
}

std::vector<pid_t> GuestLink::pids() const {
  std::vector<pid_t> pids;
  for (const auto& [pid, connections] : processes_)
    pids.push_back(static_cast<pid_t>(pid));
  return pids;
}

uint64_t GuestLink::bytes_written() const {
  return segment()->header.written.load(std::memory_order_relaxed);
}

void GuestLink::ProcessConnected(uint32_t pid) {
  ++processes_[pid];
}

void GuestLink::ProcessDisconnected(uint32_t pid) {
  const auto process = processes_.find(pid);
  // A process that executes another program connects again before its old connection
  // is seen to end: it counts twice for a moment.
  if (process == processes_.end() || --process->second > 0)
    return;
  processes_.erase(process);
  FreeWaitsOf(pid);
  if (pid == owner_pid())
    ended_ = true;
}

}  // namespace vrank::emulator
