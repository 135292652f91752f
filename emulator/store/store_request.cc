#include "emulator/store/store_request.h"

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

// Of a text, a value or a list: far more than any rendezvous needs.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr uint64_t kMostItems = uint64_t{1} << 24;

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
  std::string Text() {
    const uint64_t length = Number(8);
    if (length > kMostBytes)
      absurd_ = true;
    return std::string(Take(length));
  }
  uint64_t Items() {
    const uint64_t count = Number(8);
    if (count > kMostItems)
      absurd_ = true;
    return complete() && !absurd_ ? count : 0;
  }

  bool complete() const { return complete_; }
  bool absurd() const { return absurd_; }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view Take(uint64_t size) {
    if (!complete_ || absurd_ || size > bytes_.size()) {
      complete_ = false;
      return {};
    }
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
  bool complete_ = true;
  bool absurd_ = false;
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
      request.keys.push_back(reader.Text());
      request.values.push_back(reader.Text());
      break;
    case Operation::kCompareSet:
      request.keys.push_back(reader.Text());
      request.values.push_back(reader.Text());
      request.values.push_back(reader.Text());
      break;
    case Operation::kGet:
    case Operation::kDelete:
      request.keys.push_back(reader.Text());
      break;
    case Operation::kAdd:
      request.keys.push_back(reader.Text());
      request.number = static_cast<int64_t>(reader.Number(8));
      break;
    case Operation::kCheck:
    case Operation::kWait:
    case Operation::kGetMany:
    case Operation::kSetMany:
      for (uint64_t left = reader.Items(); left > 0 && reader.complete(); --left) {
        request.keys.push_back(reader.Text());
        if (request.operation == Operation::kSetMany)
          request.values.push_back(reader.Text());
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
  if (reader.absurd())
    return absl::InvalidArgumentError("a length that no rendezvous needs");
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
