// What the kernel says of the processes that this one has started, and they in turn.
//
// Thread rule: one thread at a time; legal in a signal handler, so it takes no memory.
// Reads /proc, two or three files per thread of theirs.

#ifndef VRANK_VIRTUAL_HOST_TURNS_PROCESS_TREE_H_
#define VRANK_VIRTUAL_HOST_TURNS_PROCESS_TREE_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/guest/units.h"

namespace vrank::host {

// Calls visit(pid) for each child of a process, if it is this user's.
void ForEachChildOf(pid_t process, const std::function<void(pid_t)>& visit);

// All threads of all descendants, one after the other.
struct TreeLook {
  bool idle = true;   // every one waits, has ended, or is held by a debugger
  uint64_t runs = 0;  // how often they have got a core so far
  Duration cpu;       // what they have used so far
};

class ProcessTree {
 public:
  // Whether this process has children: one system call.
  static bool HasChildren();
  TreeLook Look();
  // In the child after fork.
  void Forget() {
    known_ = 0;
    newest_ = 0;
  }

 private:
  void FindChildren();

  std::array<pid_t, 512> children_;  // more of them are not looked at
  size_t known_ = 0;
  pid_t newest_ = 0;   // the machine's newest process when they were found; 0: never
  bool sure_ = false;  // ... that none was on its way then
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_PROCESS_TREE_H_
