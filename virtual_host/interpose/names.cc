// Interposed: looking up the name or the address of a host.
//
// The C library asks a server for it, in waits of its own, and the answer comes when it
// comes in real time. That must decide nothing, so the thread counts as one that
// computes: no sleep of another rank ends meanwhile
// (emulator/session/wait_scheduler.h), and no other thread of its process takes its
// turn. PyTorch looks up the names of those that it connects to.

#include <netdb.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/guest/export.h"
#include "virtual_host/process/process.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
namespace {

class LookupScope {
 public:
  LookupScope() {
    GuestChannel* const channel = ProcessChannel();
    // A process that is killed meanwhile must not hold up its rank.
    if (channel == nullptr || !channel->MovesClock())
      return;
    nappers_ = &channel->segment()->header.nappers;
    nappers_->fetch_add(1);
    HostThread* const helper = thread_state.helper;
    stops_.emplace(&channel->scheduler(),
                   helper != nullptr ? helper : GuestChannel::Turn());
  }
  ~LookupScope() {
    if (nappers_ != nullptr)
      nappers_->fetch_sub(1);
  }
  LookupScope(const LookupScope&) = delete;
  LookupScope& operator=(const LookupScope&) = delete;

 private:
  std::atomic<uint32_t>* nappers_ = nullptr;
  std::optional<ThreadScheduler::StopScope> stops_;
};

}  // namespace
}  // namespace vrank::host

using vrank::host::LookupScope;
using vrank::host::Real;

extern "C" {

VRANK_EXPORT int getaddrinfo(const char* node, const char* service,
                             const addrinfo* hints, addrinfo** result) {
  LookupScope scope;
  return Real().getaddrinfo(node, service, hints, result);
}

VRANK_EXPORT int getnameinfo(const sockaddr* address, socklen_t address_bytes,
                             char* host, socklen_t host_bytes, char* service,
                             socklen_t service_bytes, int flags) {
  LookupScope scope;
  return Real().getnameinfo(address, address_bytes, host, host_bytes, service,
                            service_bytes, flags);
}

VRANK_EXPORT int gethostbyname_r(const char* name, hostent* host, char* buffer,
                                 size_t bytes, hostent** result, int* error) {
  LookupScope scope;
  return Real().gethostbyname_r(name, host, buffer, bytes, result, error);
}

VRANK_EXPORT int gethostbyaddr_r(const void* address, socklen_t address_bytes,
                                 int family, hostent* host, char* buffer, size_t bytes,
                                 hostent** result, int* error) {
  LookupScope scope;
  return Real().gethostbyaddr_r(address, address_bytes, family, host, buffer, bytes,
                                result, error);
}

}  // extern "C"
