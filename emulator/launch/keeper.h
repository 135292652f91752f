// The process between vrank and its ranks, and what the two say to each other.
//
// Messages go over a socketpair of sequenced packets. vrank sends KeeperCommand; kStart
// carries three descriptors: a memfd with the StartSpec, and the write ends for
// standard output and error. The keeper (or, for its start, the rank itself) sends
// KeeperReport.
//
// Thread rule: the keeper has one thread.

#ifndef VRANK_EMULATOR_LAUNCH_KEEPER_H_
#define VRANK_EMULATOR_LAUNCH_KEEPER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vrank::emulator {

struct KeeperCommand {
  enum Kind : uint32_t { kStart, kSignal, kEnd };
  Kind kind;
  uint32_t index = 0;  // kStart: of the rank, as vrank counts
  int32_t signal = 0;  // kSignal: to every rank's process group
};

struct KeeperReport {
  enum Kind : uint32_t {
    kStarted,      // about to execute the program; value: 1 if addresses stay random
    kStartFailed,  // value: errno
    kExited,       // value: wait status
    kGone,         // nothing is left below the keeper; it ends now
  };
  Kind kind;
  uint32_t index = 0;
  int32_t pid = 0;
  int32_t value = 0;
};

// How to execute a rank, as bytes: counts, then path, arguments and variables, each
// ending with a 0 byte.
struct StartSpec {
  uint32_t arguments;
  uint32_t variables;
  uint32_t fixed_addresses;
  static std::string Encode(const std::string& path,
                            const std::vector<std::string>& arguments,
                            const std::vector<std::string>& variables,
                            bool fixed_addresses);
};

// The keeper's whole life; `socket` is its end. Called right after fork.
[[noreturn]] void RunKeeper(int socket);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_KEEPER_H_
