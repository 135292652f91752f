// Processes of a rank that only watch its program: a debugger, and what it starts
// beside the program (gdb's `shell` and `make`).
//
// They share the rank's variables and this library, but their sleeps are none of the
// program's. A process is taken for a debugger at its first ptrace call, and tells its
// children by a variable; the program itself, which it traces, takes that back.
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_HOST_WAIT_WATCHERS_H_
#define VRANK_VIRTUAL_HOST_WAIT_WATCHERS_H_

namespace vrank::host {

// Whether this process was started beside a program that is being debugged. Called
// once, when the library is loaded; takes the variable out of the environment of a
// program that is traced.
bool StartedBesideAProgram();

// This process debugs others from here on.
void BecomeWatcher();

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_WAIT_WATCHERS_H_
