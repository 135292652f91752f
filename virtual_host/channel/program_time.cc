#include "virtual_host/channel/program_time.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "virtual_host/system/raw_syscall.h"

namespace vrank::host {
namespace {

// What the thread is for: its name, without a number that tells it from its like
// ("pt_autograd_0"). The main thread's is the program's file name, which says nothing.
uint64_t RoleOfThisThread() {
  if (RawSyscall(SYS_gettid) == getpid())
    return HashText("main");
  char name[16] = {};
  RawSyscall(SYS_prctl, PR_GET_NAME, name, 0, 0, 0);
  std::string_view role = name;
  role = role.substr(0, role.find_last_not_of("0123456789") + 1);
  return HashText(role);
}

// How often the kernel has taken the thread off its core for another one.
uint64_t Preempted() {
  rusage usage{};
  RawSyscall(SYS_getrusage, RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_nivcsw);
}

}  // namespace

ProgramTime::ProgramTime(const protocol::Settings& settings, Of of)
    : of_(of),
      meters_(settings.host_time != protocol::HostTime::kModelled ||
              settings.records_gaps != 0),
      records_(settings.records_gaps != 0),
      role_(of == Of::kFollower ? HashText("a process that it started")
                                : RoleOfThisThread()),
      thread_(static_cast<uint32_t>(RawSyscall(SYS_gettid))),
      meter_(ThreadClock(settings.ns_per_2_32_ticks)),
      history_(role_),
      anchor_(MakeAnchor("the thread's first call")),
      preempted_(Preempted()) {}

int64_t ProgramTime::TakePart() {
  const int64_t used = meters_ ? meter_.Take() : 0;
  parts_ns_ += used;
  return used;
}

int64_t ProgramTime::EndGap(const char* function) {
  const int64_t last = TakePart();
  const int64_t used = std::exchange(parts_ns_, 0);
  if (records_)
    gaps_[unsent_++] = {.anchor = anchor_, .ns = used};
  anchor_ = AnchorOf(function);
  called_ = true;
  return last;
}

protocol::HostGaps ProgramTime::Send() {
  const uint64_t preempted = Preempted();
  protocol::HostGaps batch{};
  batch.record.kind = protocol::RecordKind::kHostGaps;
  batch.role = role_;
  batch.end = anchor_;
  batch.thread = thread_;
  batch.count = std::exchange(unsent_, 0);
  batch.preempted = preempted - std::exchange(preempted_, preempted);
  return batch;
}

}  // namespace vrank::host
