// What Gloo's TCP transport says: the value by which a rank of a group tells the others
// where it listens, and the messages on a connection between two ranks.
//
// Numbers are 8 bytes, little endian. The value: length and text of the host's name,
// length and bytes of the listener's address (struct sockaddr_storage, then a number
// that counts as -1), and a number for each rank of the group, which that rank sends
// first when it connects. A message: its bytes in all, a kind, a slot (which operation,
// see kGlooKindShift), an offset, the length of the data, an offset; data follows
// where the kind is kData. The rank whose address is greater connects. Source:
// pytorch/gloo at 70dc360, gloo/transport/tcp/{context.cc,device.cc,pair.h},
// gloo/types.h.
//
// Thread rule: plain functions.

#ifndef VRANK_EMULATOR_STORE_GLOO_WIRE_H_
#define VRANK_EMULATOR_STORE_GLOO_WIRE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace vrank::emulator {

struct GlooAddress {
  std::string host;
  std::string socket;              // as above
  std::vector<int64_t> greetings;  // by rank
};

std::optional<GlooAddress> ReadGlooAddress(std::string_view value);
std::string WriteGlooAddress(const GlooAddress& address);

// Where a listener on the loopback interface is reached, as `like` writes it: 0.0.0.0,
// which is less than every other address, so that the other side connects. nullopt
// where that is an address of IPv6.
std::optional<std::string> LoopbackSocket(std::string_view like, uint16_t port);

struct GlooMessage {
  enum class Kind : uint64_t { kData = 1, kWillSend = 2, kWillReceive = 3 };
  Kind kind = Kind::kData;
  uint64_t slot = 0;
  uint64_t length = 0;    // of the data, also where only announced
  std::string_view data;  // kData
};

// The operation of a slot: its first byte, and its number among those of that kind.
inline constexpr uint64_t kGlooKindShift = 56;
inline constexpr uint64_t kGlooGatherAll = 2;
inline constexpr uint64_t kGlooBroadcast = 6;
// "broadcast"; "send" where the slot is a tag of the program's.
std::string_view GlooOperation(uint64_t slot);

// Takes one message off the front of `bytes`, into which its data points; nullopt where
// it is not all there yet. InvalidArgument: this is no such message, or it announces
// more than `most_bytes`.
absl::StatusOr<std::optional<GlooMessage>> ReadGlooMessage(
    std::string_view* bytes, uint64_t most_bytes = UINT64_MAX);
void AppendGlooMessage(std::string* out, const GlooMessage& message);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_GLOO_WIRE_H_
