// What a client of PyTorch's TCPStore asks, and how it says so.
//
// All numbers are little endian. A request is one byte (Operation) and its arguments;
// a text or a value is its length (8 bytes) and its bytes; a list is its length
// (8 bytes) and its items. Source: the behaviour of torch 2.11's client, and the
// declarations of torch/csrc/distributed/c10d/TCPStoreBackend.hpp.
//
// Thread rule: plain functions.

#ifndef VRANK_EMULATOR_STORE_STORE_REQUEST_H_
#define VRANK_EMULATOR_STORE_STORE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace vrank::emulator {

struct StoreRequest {
  enum class Operation : uint8_t {
    kValidate = 0,
    kSet = 1,
    kCompareSet = 2,
    kGet = 3,
    kAdd = 4,
    kCheck = 5,
    kWait = 6,
    kCountKeys = 7,
    kDelete = 8,
    kAppend = 9,
    kGetMany = 10,
    kSetMany = 11,
    kCancelWait = 12,
    kPing = 13,
    // Queues (14 to 16) are refused.
    kListKeys = 17,
  };
  Operation operation{};
  std::vector<std::string> keys;
  // One per key for the setting operations; kCompareSet: what is expected, what is new.
  std::vector<std::string> values;
  int64_t number = 0;  // kAdd: the summand; kValidate: the magic; kPing: to be returned
};

// The first thing that a client sends, as kValidate's number.
inline constexpr uint32_t kStoreMagic = 0x3C85F7CE;

// What PyTorch's own server takes at most (TCPStoreLibUvBackend.cpp: MAX_STRING_LEN,
// MAX_PAYLOAD_LEN, MAX_KEY_COUNT), and a bound of ours on a whole request.
inline constexpr uint64_t kLongestStoreKey = 8 << 10;
inline constexpr uint64_t kLongestStoreValue = 8 << 20;
inline constexpr uint64_t kMostStoreKeys = 128 << 10;
inline constexpr uint64_t kLongestStoreRequest = 64 << 20;

// Takes one request off the front of `bytes`; nullopt where it is not all there yet.
// InvalidArgument: this is no client of a store, or it is beyond the limits above.
// Unimplemented: a client asks for something that is refused.
absl::StatusOr<std::optional<StoreRequest>> ReadStoreRequest(std::string_view* bytes);

// Replies are made of these.
void AppendNumber(std::string* out, uint64_t value, size_t bytes);
void AppendText(std::string* out, std::string_view text);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_STORE_STORE_REQUEST_H_
