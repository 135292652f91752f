// Requests about TCP sockets of this machine, in the kernel's form (sock_diag(7)).
//
// Thread rule: plain values.

#ifndef VRANK_EMULATOR_CONNECT_SOCK_DIAG_H_
#define VRANK_EMULATOR_CONNECT_SOCK_DIAG_H_

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>

#include <cstdint>

namespace vrank::emulator {

struct SockDiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 question;
};

// `family`: AF_INET or AF_INET6. `flags`: NLM_F_DUMP for all sockets, 0 for the one
// that `question.id` names. `states`: a bit per state of <netinet/tcp.h>.
inline SockDiagRequest AboutTcp(uint8_t family, uint16_t flags, uint32_t states) {
  SockDiagRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  request.question.sdiag_family = family;
  request.question.sdiag_protocol = IPPROTO_TCP;
  request.question.idiag_states = states;
  return request;
}

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_CONNECT_SOCK_DIAG_H_
