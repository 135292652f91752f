// What processes of this machine have sent each other by TCP and the kernel has not
// delivered yet.
//
// On a loaded machine a packet may lie in a queue of the loopback device for
// milliseconds. Meanwhile sender and receiver both sleep, though one of them is about
// to be woken: threads at rest are no rest of the session then. Pipes and Unix sockets
// deliver at once.
//
// The kernel is asked by sock_diag(7), which goes through its table of connections some
// twenty times as fast as /proc/net/tcp prints it (0.2 and 4.6 ms of a table with 2^17
// places), and in a program like this one is asked hundreds of times. Where it has no
// sock_diag, the text is read.
//
// Thread rule: any thread. Nothing is kept.

#ifndef VRANK_EMULATOR_WATCH_LOOPBACK_TRAFFIC_H_
#define VRANK_EMULATOR_WATCH_LOOPBACK_TRAFFIC_H_

#include <istream>

namespace vrank::emulator {

// Whether a connection between two sockets of this machine has bytes that its other
// end has not acknowledged. True also where the kernel does not say.
bool LoopbackInFlight();

// For a table of connections as in /proc/net/tcp (proc_net_tcp.txt of the kernel's
// documentation).
bool InFlight(std::istream& connections);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WATCH_LOOPBACK_TRAFFIC_H_
