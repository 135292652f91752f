#include "virtual_host/process/process.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/guest/export.h"
#include "base/guest/raw_log.h"
#include "virtual_host/process/spawned_rank.h"
#include "virtual_host/process/thread_report.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/running_threads.h"
#include "virtual_host/wait/condition_queue.h"
#include "virtual_host/wait/thread_waits.h"
#include "virtual_host/wait/watchers.h"

namespace vrank::host {
namespace {

// kRealTime: connected, but the process's clocks, sleeps and threads are its own; its
// GPU is a real one.
enum class State : int { kUnknown, kConnecting, kReady, kRealTime, kNone };
std::atomic<State> state{State::kUnknown};

// Never destroyed: destructors of other libraries may still read the clock.
alignas(GuestChannel) unsigned char channel_storage[sizeof(GuestChannel)];
Connection connection;
Account account;

GuestChannel* Stored() {
  return std::launder(reinterpret_cast<GuestChannel*>(channel_storage));
}

// Before, too: the child may look at the clock before the parent continues.
void StirForFork() {
  if (GuestChannel* const channel = ConnectedChannel())
    channel->Stir();
}

void AfterForkInChild() {
  if (state.load() != State::kReady && state.load() != State::kRealTime)
    return;
  if (!ConnectAfterFork(account, &connection)) {
    RawLog("virtual_host", "vrank has ended; this process ends too");
    _exit(1);
  }
  Stored()->BecomeForkChild();
  ThreadWaits::ForgetSelf();
  AnswerThreadQuestions(connection.segment);
  condition_queue.ForgetAll();
  running_threads.ForgetAll();
}

// What says which rank this process is: vrank itself, or else the launcher that vrank
// runs, or its place where the launcher is the program, which spawns its ranks.
// nullptr: this is the launcher, or a helper of it, and no rank.
const char* RankText() {
  if (const char* text = getenv("VRANK_RANK"))
    return text;
  if (getenv("VRANK_LAUNCHER") == nullptr)
    return "";
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const char* text = getenv(name))
      return text;
  const int place = PlaceAmongSpawned();
  if (place < 0)
    return nullptr;
  static char text[16];
  snprintf(text, sizeof text, "%d", place);
  // What it starts is part of it, and no rank that the launcher spawned. This is how
  // JoinTheJob knows it, too: all ranks are here, and meet where the program says.
  setenv("VRANK_RANK", text, 1);
  return text;
}

void SetWhereSet(const char* name, uint32_t value) {
  if (getenv(name) == nullptr)
    return;
  char text[16];
  snprintf(text, sizeof text, "%u", value);
  setenv(name, text, 1);
}

// A rank of a launcher is one of the whole job, most of which the launcher does not
// start, and meets the others at vrank's store, which answers for those that are not
// real. PyTorch reads these variables, later than this.
void JoinTheJob(const protocol::Settings& settings) {
  const char* const port = getenv("VRANK_LAUNCHER");
  if (port == nullptr || getenv("VRANK_RANK") != nullptr)
    return;
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port, 1);
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  SetWhereSet("WORLD_SIZE", settings.world_size);
  if (HasRealGpu())
    return;  // a rank finds this machine's GPU by its place on this machine
  SetWhereSet("LOCAL_WORLD_SIZE", settings.local_world_size);
  SetWhereSet("LOCAL_RANK", settings.local_rank);
}

// Connects; ends the process where it cannot.
void Open(const char* text) {
  char error[512] =
      "VRANK_SOCKET is set but VRANK_RANK is no number; start the program "
      "through vrank";
  char* end = nullptr;
  account.rank = static_cast<uint32_t>(strtoul(text, &end, 10));
  account.token = ReadToken(getenv("VRANK_TOKEN"));
  const bool number = end != text && *end == '\0';
  if (!number || !Connect(account, &connection, error, sizeof error)) {
    RawLog("virtual_host", "%s", error);
    _exit(1);
  }
  JoinTheJob(connection.segment->header.settings);
  // Where this program has replaced another one.
  OtherLimit::EndAllOf(connection.segment, static_cast<uint32_t>(getpid()));
  OtherProcesses::Stir(&connection.segment->header);
  new (channel_storage) GuestChannel(connection, HasRealGpu());
  if (StartedBesideAProgram())
    Stored()->StandAside();
  AnswerThreadQuestions(connection.segment);
  pthread_atfork(StirForFork, StirForFork, AfterForkInChild);
}

__attribute__((constructor)) void ConnectAtLoad() {
  Real();
  ProcessChannel();
}

}  // namespace

GuestChannel* ConnectedChannel() {
  return state.load(std::memory_order_acquire) == State::kReady ? Stored() : nullptr;
}

GuestChannel* ProcessChannel() {
  const State now = state.load(std::memory_order_acquire);
  if (now == State::kReady) [[likely]]
    return Stored();
  State unknown = State::kUnknown;
  if (now != State::kUnknown ||
      !state.compare_exchange_strong(unknown, State::kConnecting))
    return nullptr;
  const int saved_errno = errno;
  const char* const address = getenv("VRANK_SOCKET");
  account.address = address;
  const char* text = RankText();
  if (address == nullptr || *address == '\0' || text == nullptr) {
    state.store(State::kNone);
    return nullptr;
  }
  Open(text);
  errno = saved_errno;
  const bool real_time = HasRealGpu();
  state.store(real_time ? State::kRealTime : State::kReady, std::memory_order_release);
  return real_time ? nullptr : Stored();
}

bool HasRealGpu() {
  return getenv("VRANK_REAL_GPU") != nullptr;
}

}  // namespace vrank::host

namespace vrank::host {
namespace {

// Also where the process's own time is real.
GuestChannel* LibrariesChannel() {
  GuestChannel* const channel = ProcessChannel();
  return state.load(std::memory_order_acquire) == State::kRealTime ? Stored() : channel;
}

}  // namespace

GuestChannel* RangesChannel() {
  GuestChannel* const channel = LibrariesChannel();
  if (channel == nullptr || !HasRealGpu())
    return channel;
  static const int64_t origin_ns = strtoll(getenv("VRANK_REAL_GPU"), nullptr, 10);
  timespec now{};
  Real().clock_gettime(CLOCK_MONOTONIC, &now);
  channel->FollowWallClock(TimePoint::FromNanoseconds(
      now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec - origin_ns));
  return channel;
}

}  // namespace vrank::host

// What FindChannel() of the other guest libraries looks for.
extern "C" VRANK_EXPORT vrank::Channel* vrank_guest_channel(uint32_t abi) {
  if (abi == vrank::Channel::kAbi)
    return vrank::host::LibrariesChannel();
  vrank::RawLog(
      "virtual_host",
      "a guest library wants channel version %u, this is %u; install the guest "
      "libraries from one build",
      abi, vrank::Channel::kAbi);
  return nullptr;
}
