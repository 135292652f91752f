#include "virtual_host/issuing_threads.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "virtual_host/futex.h"
#include "virtual_host/kernel_thread.h"
#include "virtual_host/raw_syscall.h"
#include "virtual_host/session_end.h"

namespace vrank::host {

Issuer* IssuingThreads::Add() {
  Issuer* made = nullptr;
  for (const auto& issuer : issuers_)
    if (issuer->tid.load() == 0 && issuer.get() != last_)
      made = issuer.get();
  if (made == nullptr)
    made = issuers_.emplace_back(std::make_unique<Issuer>()).get();
  made->occupied = made->counted = false;
  made->before = {};
  made->tid = static_cast<pid_t>(RawSyscall(SYS_gettid));
  return made;
}

void IssuingThreads::ForgetAll() {
  for (const auto& issuer : issuers_)
    issuer->tid = 0;
  last_ = nullptr;
}

void IssuingThreads::TakeOver(Issuer* self) {
  Issuer* const before = std::exchange(last_, self);
  if (own_time_ || before == nullptr || (before->counted && self->counted))
    return;
  self->before = {before, before->tid.load(), before->issued.load()};
}

int IssuingThreads::Settle(Issuer* self) {
  const Issuer::Turn before = std::exchange(self->before, {});
  // Whoever issues meanwhile did not wait for us.
  const OccupiedScope occupied(self);
  std::atomic<uint32_t> nothing{0};
  Duration nap = kFirstNap;
  std::optional<Duration> cpu_at_start;
  for (;;) {
    // Not even the first look comes at once: a lock of the GPU, which it is about to
    // get, is nothing to wait for.
    FutexWait(&nothing, 0, nap, /*shared=*/false);
    ExitIfAborting(header_);
    nap = std::min(nap + nap, kLongestNap);
    const char state = KernelState(before.tid);
    if (state == 0 || before.issuer->tid.load() != before.tid)
      return 0;  // it has ended
    if (before.issuer->issued.load() != before.issued || before.issuer->occupied.load())
      break;
    if (Waits(state))
      return 0;
    const Duration cpu = CpuTime(before.tid);
    if (!cpu_at_start.has_value())
      cpu_at_start = cpu;
    if (cpu - *cpu_at_start >= kPatience)
      break;
  }
  return (self->counted.exchange(true) ? 0 : 1) +
         (before.issuer->counted.exchange(true) ? 0 : 1);
}

}  // namespace vrank::host
