// The process's connection to the emulator, and the leash that comes with it.
//
// A process that outlived vrank would hang, or burn a cluster's time on a run that
// nobody reads. So a second connection, the leash, is put into asynchronous mode with
// SIGKILL as its signal (F_SETSIG, O_ASYNC): when vrank's end closes, however vrank
// died, the kernel kills this process. No thread watches, nothing can be missed while
// the process is busy, and it covers grandchildren, since each process that loads the
// library connects by itself. The setting belongs to one process: a child after fork
// connects anew.
//
// Nothing is ever sent over the leash: data is a reason for the signal, too, and the
// kernel tells of data a moment after it can be read. A reply that came over the leash
// could so kill the process that has already read it.
//
// Thread rule: called while the process has one thread (at load, in a child after
// fork).

#ifndef VRANK_VIRTUAL_HOST_CHANNEL_CONNECTION_H_
#define VRANK_VIRTUAL_HOST_CHANNEL_CONNECTION_H_

#include <cstddef>
#include <cstdint>

#include "base/guest/protocol.h"
#include "base/guest/session_token.h"

namespace vrank::host {

struct Connection {
  int socket = -1;  // over it vrank has replied; none in a child after fork
  int leash = -1;
  int doorbell = -1;
  protocol::Segment* segment = nullptr;
  unsigned char* ring = nullptr;  // kRingBytes, and the same bytes once more behind
};

// Where vrank listens, and as what this process introduces itself there.
struct Account {
  const char* address = nullptr;  // of an abstract socket
  uint32_t rank = 0;
  protocol::SessionToken token{};
};

// Reads the value of VRANK_TOKEN; zeros where it is none, which vrank refuses.
protocol::SessionToken ReadToken(const char* digits);

// Connects, maps the segment and ties this process's life to vrank's. False: `error`
// says why, in one line.
bool Connect(const Account& account, Connection* connection, char* error,
             size_t error_bytes);

// In a child after fork: gives up the parent's sockets (the parent's end would not be
// noticed otherwise) and reports this process; the mapping is inherited. False: vrank
// is gone.
bool ConnectAfterFork(const Account& account, Connection* connection);

// Maps the segment behind `memfd`; for tests, which have no server.
bool MapSegment(int memfd, Connection* connection);

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_CHANNEL_CONNECTION_H_
