// Ends everything below the calling process.
//
// Thread rule: one thread; nobody else waits for children meanwhile.

#ifndef VRANK_EMULATOR_LAUNCH_DESCENDANTS_H_
#define VRANK_EMULATOR_LAUNCH_DESCENDANTS_H_

#include <sys/types.h>

#include <functional>

#include "base/guest/units.h"

namespace vrank::emulator {

// Kills the children of this process, and their orphans, which become its children,
// until there are none or `limit` has passed; true where none are left. Children are
// killed one generation after the other: a child that has not been waited for keeps its
// pid, so no other process can be hit. One that ignores SIGINT and SIGTERM, so as to
// clean up once all others have ended (Python's resource_tracker, which unlinks their
// semaphores), is left 2 s more to end by itself. `on_end(pid, wait_status)` is told
// about each.
// REQUIRES: this process is a subreaper (PR_SET_CHILD_SUBREAPER).
bool KillDescendants(Duration limit, const std::function<void(pid_t, int)>& on_end);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_LAUNCH_DESCENDANTS_H_
