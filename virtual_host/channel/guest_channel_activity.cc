// What a profiler in the process asks of the guest channel.

#include <utility>

#include "virtual_host/channel/guest_channel.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

HostMark GuestChannel::Mark() {
  SettleReading();
  // Before the rank has an owner all time is that before its first record.
  if (!owner_.load(std::memory_order_acquire))
    return {0, ProcessNow().nanoseconds()};
  InsideScope inside;
  LockGuard guard(&lock_);
  return {ring_.records(), unsent_ns_ + unsent_gaps_ns_};
}

uint64_t GuestChannel::LastRecord() const {
  return thread_state.last_record;
}

size_t GuestChannel::Read(protocol::ActivityEntry* out, size_t capacity) {
  return activity_reader_.Read(out, capacity);
}

void GuestChannel::Await(bool for_entries, Duration patience) {
  InsideScope inside;
  if (!aborting())
    activity_reader_.Await(for_entries, patience);
}

void GuestChannel::HideThread() {
  hidden_tid_.store(static_cast<pid_t>(RawSyscall(SYS_gettid)));
  if (thread_state.helper != nullptr)
    scheduler_.End(std::exchange(thread_state.helper, nullptr));
  ++thread_state.inside;
}

}  // namespace vrank::host
