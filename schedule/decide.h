// Whose wait ends next among the real ranks of a session, and what is past already.
//
// The rule: of all ranks the one with the least virtual clock acts next. A rank's clock
// never goes back, so nothing that it still does comes before that clock or, where it
// sleeps, before the end of its sleep. Who cannot be seen to wait is the only thing
// that these functions do not know: they say which ranks have to rest before a wait
// ends (ThoseBefore), and the session looks whether they do
// (emulator/watch/thread_watch.h).
//
// Pure functions of a snapshot: no clock, lock, system call, or state. Times are in ns
// of the virtual clock.
//
// Thread rule: plain values.

#ifndef VRANK_SCHEDULE_DECIDE_H_
#define VRANK_SCHEDULE_DECIDE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace vrank::schedule {

inline constexpr int64_t kNoTime = std::numeric_limits<int64_t>::max();

struct RankState {
  int32_t rank = 0;
  bool closed = false;   // its program is over
  bool blocked = false;  // all its threads that issue work wait in the emulator
  int64_t clock_ns = 0;
  int32_t running_issuers = 0;  // threads that issue work and do not wait there
  // The earliest limit of its waits.
  struct Limit {
    int64_t ns = 0;
    bool sleeps = false;   // nothing but time ends it, and no thread issues before
    bool is_turn = false;  // no limit: a thread waits for the turn of another one
  };
  std::optional<Limit> limit;
};

struct Snapshot {
  std::vector<RankState> ranks;  // by rank
  // Somebody has written what nobody has read. Looked up after the clocks: what a rank
  // has written by the time of its clock is known then.
  bool unread = false;
};

// Of ranks that are not blocked. 0 where something is unread, kNoTime where there is no
// such rank.
int64_t EarliestClock(const Snapshot& snapshot);
// Before which no rank but `except` issues work; -1: none is left out.
int64_t EarliestIssue(const Snapshot& snapshot, int32_t except);
int64_t EarliestLimit(const Snapshot& snapshot);  // kNoTime: there is none
int64_t LatestClock(const Snapshot& snapshot);    // 0: there is no rank
bool AnyoneSleeps(const Snapshot& snapshot);

// A query that is not answered yet. The oldest one of all ranks is answered first.
struct OpenQuery {
  int64_t asked_ns = 0;
  int32_t rank = 0;
  bool about_memory = false;  // of other processes; else whether work has ended
  bool meets = false;         // it is about a meeting that the rank has joined
  // The answer changes what other ranks ask from then on.
  bool needs_all_rest = false;
};

// The wait whose limit is reached next. That of a blocked rank is the emulator's to end
// with its answer, unless another rank waits for a later time.
struct NextWait {
  size_t index;  // in Snapshot::ranks
  bool at_once;  // nothing but time ends it, or one elsewhere that comes later
};
std::optional<NextWait> FindNextWait(const Snapshot& snapshot);

// Of blocked ranks: the one with the earliest limit before that time. A turn counts
// where `all_blocked`: else what comes later may bring it.
std::optional<size_t> FindBlockedBefore(const Snapshot& snapshot, int64_t ns,
                                        bool all_blocked);

// Indices of the ranks that have to rest before something about rank `of` is decided
// that happens at that time: those that could still act before. At one time the rank
// with the lower number acts first. `all`: every rank that has not ended.
std::vector<size_t> ThoseBefore(const Snapshot& snapshot, int32_t of, int64_t ns,
                                bool all);

}  // namespace vrank::schedule

#endif  // VRANK_SCHEDULE_DECIDE_H_
