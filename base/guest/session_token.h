// How a process shows that it belongs to the session whose socket it connects to.
//
// The name of an abstract unix socket is no secret: /proc/net/unix shows it to every
// user. An environment can be read by its own user alone, and there the session leaves
// a token, VRANK_TOKEN, as hexadecimal digits. It precedes the Hello of
// base/guest/protocol.h in one message.
//
// Thread rule: plain values.

#ifndef VRANK_BASE_GUEST_SESSION_TOKEN_H_
#define VRANK_BASE_GUEST_SESSION_TOKEN_H_

#include <array>
#include <cstddef>

#include "base/guest/protocol.h"

namespace vrank::protocol {

inline constexpr size_t kTokenBytes = 16;
using SessionToken = std::array<unsigned char, kTokenBytes>;

struct Introduction {
  SessionToken token{};
  Hello hello;
};

}  // namespace vrank::protocol

#endif  // VRANK_BASE_GUEST_SESSION_TOKEN_H_
