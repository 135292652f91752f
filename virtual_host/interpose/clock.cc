// Interposed: reading a clock. A reading of an issuing thread costs its table value, so
// a loop that waits for a time by reading the clock gets there; one that gives a wait
// its limit is free, and so are those of a compiler, of PyTorch's libraries and of
// Python's own waits (GuestChannel::Read).
//
// libstdc++'s clocks are interposed as well: what reads them is seen only where they
// are called.

#include <sys/time.h>
#include <time.h>

#include <cerrno>
#include <chrono>

#include "base/guest/export.h"
#include "base/guest/program_call.h"
#include "virtual_host/process/process.h"
#include "virtual_host/process/virtual_clock.h"
#include "virtual_host/quirks/python_code.h"
#include "virtual_host/system/library_code.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/futex.h"

namespace vrank::host {
namespace {

GuestChannel::Reader ReaderAt(const void* code) {
  if (IsCompilerCode(code))
    return GuestChannel::Reader::kCompiler;
  if (IsTorchCode(code))
    return GuestChannel::Reader::kLibrary;
  switch (CurrentPythonWait()) {
    case PythonWait::kByLock:
      return GuestChannel::Reader::kWait;
    case PythonWait::kByPoll:
      return GuestChannel::Reader::kPoll;
    case PythonWait::kNone:
      break;
  }
  return GuestChannel::Reader::kProgram;
}

// False: the clock is real. Inlined, so that the return address is the program's.
[[gnu::always_inline]] inline bool ReadVirtual(clockid_t clock, timespec* now) {
  GuestChannel* const channel = ProcessChannel();
  if (channel == nullptr)
    return false;
  const std::optional<Duration> start = ClockStart(channel->settings(), clock);
  if (!start.has_value())
    return false;
  ProgramCall call(channel);
  const GuestChannel::Reader reader = ReaderAt(__builtin_return_address(0));
  // How often others look is chance.
  if (reader == GuestChannel::Reader::kProgram)
    call.NameIt("clock_gettime");
  const TimePoint shown = channel->Read(reader);
  *now = ToTimespec(*start + (shown - TimePoint()));
  return true;
}

// What a clock of libstdc++'s shows.
[[gnu::always_inline]] inline std::chrono::nanoseconds ReadOrReal(clockid_t clock) {
  timespec now{};
  if (!ReadVirtual(clock, &now))
    Real().clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace
}  // namespace vrank::host

using vrank::host::ReadOrReal;
using vrank::host::ReadVirtual;
using vrank::host::Real;

VRANK_EXPORT std::chrono::steady_clock::time_point
std::chrono::steady_clock::now() noexcept {
  return time_point(ReadOrReal(CLOCK_MONOTONIC));
}

VRANK_EXPORT std::chrono::system_clock::time_point
std::chrono::system_clock::now() noexcept {
  return time_point(ReadOrReal(CLOCK_REALTIME));
}

extern "C" {

VRANK_EXPORT int clock_gettime(clockid_t clock, timespec* now) noexcept {
  return ReadVirtual(clock, now) ? 0 : Real().clock_gettime(clock, now);
}

VRANK_EXPORT int gettimeofday(timeval* __restrict now, void* __restrict zone) noexcept {
  timespec precise;
  if (zone != nullptr || !ReadVirtual(CLOCK_REALTIME, &precise))
    return Real().gettimeofday(now, zone);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

VRANK_EXPORT time_t time(time_t* now) noexcept {
  timespec precise;
  if (!ReadVirtual(CLOCK_REALTIME, &precise))
    return Real().time(now);
  if (now != nullptr)
    *now = precise.tv_sec;
  return precise.tv_sec;
}

VRANK_EXPORT clock_t clock() noexcept {
  timespec precise;
  if (!ReadVirtual(CLOCK_PROCESS_CPUTIME_ID, &precise))
    return Real().clock();
  return precise.tv_sec * CLOCKS_PER_SEC +
         precise.tv_nsec * CLOCKS_PER_SEC / 1'000'000'000;
}

VRANK_EXPORT int timespec_get(timespec* now, int base) noexcept {
  if (base == TIME_UTC && ReadVirtual(CLOCK_REALTIME, now))
    return base;
  return Real().timespec_get(now, base);
}

}  // extern "C"
