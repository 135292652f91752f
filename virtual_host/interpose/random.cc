// Interposed: std::random_device, where PyTorch asks it.
//
// PyTorch draws how long a client of its store waits after a connection was refused
// (torch/csrc/distributed/c10d/Backoff.cpp in PyTorch 2.11), so that ranks do not try
// again all at once. That is a sleep, and so a part of the run: each draw is a function
// of the rank and of the draws before it. What the program draws for itself is random,
// from where the library would take it (getrandom(2)).

#include <atomic>
#include <cstdint>
#include <optional>
#include <random>

#include "base/guest/export.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/library_code.h"
#include "virtual_host/system/raw_syscall.h"

namespace vrank::host {
namespace {

// nullopt: it is not this process's to say. A child draws for itself, else all children
// of one process would draw alike.
std::optional<uint32_t> Drawn() {
  static constinit std::atomic<uint32_t> draws{0};
  static const long process = RawSyscall(SYS_getpid);
  const GuestChannel* const channel = ProcessChannel();
  if (channel == nullptr || !channel->MovesClock() || process != RawSyscall(SYS_getpid))
    return std::nullopt;
  std::seed_seq source{channel->settings().rank, draws.fetch_add(1)};
  uint32_t drawn = 0;
  source.generate(&drawn, &drawn + 1);
  return drawn;
}

}  // namespace
}  // namespace vrank::host

// std::random_device::_M_getval, by the name that CMakeLists.txt gives it: this library
// has libstdc++'s own inside, to which a second definition would be an error.
extern "C" VRANK_EXPORT unsigned int vrank_random_device_value(void*) {
  using vrank::host::RawSyscall;
  if (vrank::host::IsTorchCode(__builtin_return_address(0)))
    if (const auto drawn = vrank::host::Drawn())
      return *drawn;
  unsigned int random = 0;
  while (RawSyscall(SYS_getrandom, &random, sizeof random, 0) != sizeof random) {
  }
  return random;
}
