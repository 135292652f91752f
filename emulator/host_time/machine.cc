#include "emulator/host_time/machine.h"

#include <time.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/guest/time_stamp.h"

namespace vrank::emulator {
namespace {

// The value of the first line of /proc/cpuinfo that begins with `name`.
std::string CpuInfo(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) != 0)
      continue;
    const size_t value = line.find(": ");
    return value == std::string::npos ? "" : line.substr(value + 2);
  }
  return "";
}

struct Instant {
  uint64_t ticks = 0;
  int64_t ns = 0;
};
// The counter and the clock at one moment: of several readings the one in which the
// least time passed.
Instant ReadBoth() {
  Instant best;
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 16; ++i) {
    const uint64_t before = TimeStampCount();
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    const uint64_t after = TimeStampCount();
    if (after - before >= least)
      continue;
    least = after - before;
    best = {before + least / 2, int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec};
  }
  return best;
}

}  // namespace

std::string CpuModel() {
  const std::string model = CpuInfo("model name");
  return model.empty() ? "unknown" : model;
}

uint64_t NsPer2To32Ticks() {
  const std::string flags = CpuInfo("flags") + " ";
  if (flags.find(" constant_tsc ") == std::string::npos ||
      flags.find(" nonstop_tsc ") == std::string::npos)
    return 0;
  const Instant begin = ReadBoth();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Instant end = ReadBoth();
  if (end.ticks <= begin.ticks || end.ns <= begin.ns)
    return 0;
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((Wide{static_cast<uint64_t>(end.ns - begin.ns)} << 32) /
                               (end.ticks - begin.ticks));
}

CoreTimes ReadCoreTimes() {
  // user nice system idle iowait irq softirq steal, see proc(5); the two behind them
  // are in the first two.
  constexpr size_t kSteal = 7;
  std::ifstream file("/proc/stat");
  std::string cpu, line;
  std::getline(file, line);
  std::istringstream fields(line);
  fields >> cpu;
  const int64_t ms_per_tick = 1000 / sysconf(_SC_CLK_TCK);
  CoreTimes times;
  int64_t ticks = 0;
  for (size_t i = 0; i <= kSteal && fields >> ticks; ++i) {
    times.total_ms += ticks * ms_per_tick;
    if (i == kSteal)
      times.stolen_ms = ticks * ms_per_tick;
  }
  return times;
}

}  // namespace vrank::emulator
