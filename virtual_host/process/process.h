// This process's place in the session: its channel, made on first use.
//
// Constructors of other libraries may read a clock or ask for the channel before this
// library's own constructor runs, so whoever comes first connects.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_HOST_PROCESS_PROCESS_H_
#define VRANK_VIRTUAL_HOST_PROCESS_PROCESS_H_

#include "virtual_host/channel/guest_channel.h"

namespace vrank::host {

// The channel of whoever makes the process's time; nullptr where the process does not
// run under vrank (VRANK_SOCKET is not set) or its GPU is a real one, and, for a
// moment, on a thread that comes in while another one connects. A connection that fails
// ends the process with one line: going on in real time would give a wrong result.
GuestChannel* ProcessChannel();

// The same, but nullptr as well where the process has not connected yet. Legal in a
// signal handler.
GuestChannel* ConnectedChannel();

// The process keeps its own GPUs and its own time; only libnccl is ours.
bool HasRealGpu();

// For NVTX's ranges: also where the process's time is its own, to which the channel's
// clock is brought first.
GuestChannel* RangesChannel();

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_PROCESS_PROCESS_H_
