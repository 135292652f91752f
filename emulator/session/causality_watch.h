// Remembers which questions were answered although an unseen channel was still open.
//
// Where every real rank waits in the emulator, "not yet" is exact. Where one of them
// sits in something that vrank does not see (a pipe, a socket, a lock), it is a guess:
// that rank may still do, at an earlier time, what ends the work in question. The
// engine notices when it does (RankResult::divergences), and the run fails, because
// its result would depend on real time.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_CAUSALITY_WATCH_H_
#define VRANK_EMULATOR_SESSION_CAUSALITY_WATCH_H_

#include <cstdint>
#include <map>

#include <absl/status/status.h>

#include "emulator/world/world.h"

namespace vrank::emulator {

class CausalityWatch {
 public:
  // `rank` asked at this time of its clock and is told "not yet" for that reason.
  void Told(int32_t rank, int64_t asked_ns) { asked_ns_[rank] = asked_ns; }
  // An error that names the rank where a later op contradicts what one was told.
  absl::Status Check(const World& world) const;

 private:
  std::map<int32_t, int64_t> asked_ns_;  // by rank: its latest such question
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_CAUSALITY_WATCH_H_
