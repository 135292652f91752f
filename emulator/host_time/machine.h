// What host times depend on of the machine that they are recorded on.
//
// Thread rule: reads /proc and the time stamp counter; keeps nothing.

#ifndef VRANK_EMULATOR_HOST_TIME_MACHINE_H_
#define VRANK_EMULATOR_HOST_TIME_MACHINE_H_

#include <cstdint>
#include <string>

namespace vrank::emulator {

// "Intel(R) Xeon(R) Platinum 8480C"; "unknown" where /proc does not say.
std::string CpuModel();

// protocol::Settings::ns_per_2_32_ticks, measured for 20 ms against the system's clock;
// 0 where the counter stands still, or changes its speed, with the processor's.
uint64_t NsPer2To32Ticks();

// Of all cores since the machine came up.
struct CoreTimes {
  int64_t stolen_ms = 0;  // by the hypervisor, for others
  int64_t total_ms = 0;
};
CoreTimes ReadCoreTimes();

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_HOST_TIME_MACHINE_H_
