#include "emulator/store/store_request.h"

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

// Reads from the front; once something is missing, everything is.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Number(size_t size) {
    const std::string_view taken = Take(size);
    uint64_t value = 0;
    for (size_t i = taken.size(); i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(taken[i]);
    return value;
  }
  std::string Key() { return Text("key", kLongestStoreKey); }
  std::string Value() { return Text("value", kLongestStoreValue); }
  uint64_t Items() {
    const uint64_t count = Number(8);
    Limit("list of keys", count, kMostStoreKeys);
    return complete() && excess_.empty() ? count : 0;
  }

  bool complete() const { return complete_; }
  // What is longer than its limit; empty: nothing.
  const std::string& excess() const { return excess_; }
  std::string_view rest() const { return bytes_; }

 private:
  std::string Text(const char* what, uint64_t limit) {
    const uint64_t length = Number(8);
    Limit(what, length, limit);
    return std::string(Take(length));
  }
  void Limit(const char* what, uint64_t length, uint64_t limit) {
    if (length > limit && excess_.empty())
      excess_ = fmt::format("a {} of length {}; PyTorch's own store takes at most {}",
                            what, length, limit);
  }
  std::string_view Take(uint64_t size) {
    if (!complete_ || !excess_.empty() || size > bytes_.size()) {
      complete_ = false;
      return {};
    }
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
  bool complete_ = true;
  std::string excess_;
};

}  // namespace

absl::StatusOr<std::optional<StoreRequest>> ReadStoreRequest(std::string_view* bytes) {
  using Operation = StoreRequest::Operation;
  Reader reader(*bytes);
  StoreRequest request;
  request.operation = static_cast<Operation>(reader.Number(1));
  if (!reader.complete())
    return std::nullopt;
  switch (request.operation) {
    case Operation::kValidate:
    case Operation::kPing:
      request.number = static_cast<int64_t>(reader.Number(4));
      break;
    case Operation::kSet:
    case Operation::kAppend:
      request.keys.push_back(reader.Key());
      request.values.push_back(reader.Value());
      break;
    case Operation::kCompareSet:
      request.keys.push_back(reader.Key());
      request.values.push_back(reader.Value());
      request.values.push_back(reader.Value());
      break;
    case Operation::kGet:
    case Operation::kDelete:
      request.keys.push_back(reader.Key());
      break;
    case Operation::kAdd:
      request.keys.push_back(reader.Key());
      request.number = static_cast<int64_t>(reader.Number(8));
      break;
    case Operation::kCheck:
    case Operation::kWait:
    case Operation::kGetMany:
    case Operation::kSetMany:
      for (uint64_t left = reader.Items(); left > 0 && reader.complete(); --left) {
        request.keys.push_back(reader.Key());
        if (request.operation == Operation::kSetMany)
          request.values.push_back(reader.Value());
      }
      break;
    case Operation::kCountKeys:
    case Operation::kCancelWait:
    case Operation::kListKeys:
      break;
    default:
      return absl::UnimplementedError(
          fmt::format("operation {} of a TCPStore is not supported (queues are not)",
                      static_cast<int>(request.operation)));
  }
  if (!reader.excess().empty())
    return absl::InvalidArgumentError(reader.excess());
  if (!reader.complete() && bytes->size() > kLongestStoreRequest)
    return absl::InvalidArgumentError(
        fmt::format("a request of more than {} bytes, all keys and values together",
                    kLongestStoreRequest));
  if (!reader.complete())
    return std::nullopt;
  *bytes = reader.rest();
  return request;
}

void AppendNumber(std::string* out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    out->push_back(static_cast<char>(value >> 8 * i));
}

void AppendText(std::string* out, std::string_view text) {
  AppendNumber(out, text.size(), 8);
  out->append(text);
}

}  // namespace vrank::emulator
