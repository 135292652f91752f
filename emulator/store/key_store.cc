#include "emulator/store/key_store.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

// Replies of one byte.
constexpr uint64_t kReady = 0, kNotReady = 1;      // to kCheck
constexpr uint64_t kAllThere = 0, kCancelled = 1;  // to kWait, kCancelWait

}  // namespace

bool KeyStore::HasAll(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(),
                     [this](const std::string& key) { return Has(key); });
}

void KeyStore::Wake(Replies* replies) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (HasAll(it->second)) {
      AppendNumber(&(*replies)[it->first], kAllThere, 1);
      it = waiting_.erase(it);
    } else {
      ++it;
    }
  }
}

void KeyStore::Set(const std::string& key, std::string value, Replies* replies) {
  values_[key] = std::move(value);
  Wake(replies);
}

std::vector<std::string> KeyStore::Missing() const {
  std::set<std::string> missing;
  for (const auto& [client, keys] : waiting_)
    for (const std::string& key : keys)
      if (!Has(key))
        missing.insert(key);
  return {missing.begin(), missing.end()};
}

std::vector<KeyStore::Wait> KeyStore::Waits() const {
  std::vector<Wait> waits;
  for (const auto& [client, keys] : waiting_) {
    const auto missing = std::find_if(
        keys.begin(), keys.end(), [this](const std::string& key) { return !Has(key); });
    if (missing != keys.end())
      waits.push_back({client, *missing});
  }
  return waits;
}

std::map<uint32_t, std::string> KeyStore::Numbered(const std::string& prefix) const {
  std::map<uint32_t, std::string> numbered;
  for (auto it = values_.lower_bound(prefix);
       it != values_.end() && it->first.starts_with(prefix); ++it) {
    const char* const end = it->first.data() + it->first.size();
    uint32_t number = 0;
    const auto [at, error] =
        std::from_chars(it->first.data() + prefix.size(), end, number);
    if (error == std::errc() && at == end)
      numbered.emplace(number, it->second);
  }
  return numbered;
}

// Sums are kept as decimal text.
absl::Status KeyStore::Add(const StoreRequest& request, std::string* out) {
  std::string& text = values_[request.keys[0]];
  int64_t sum = 0;
  const char* end = text.data() + text.size();
  if (!text.empty() && std::from_chars(text.data(), end, sum).ptr != end)
    return absl::InvalidArgumentError(
        fmt::format("key '{}' is added to and holds no number", request.keys[0]));
  sum = static_cast<int64_t>(static_cast<uint64_t>(sum) +
                             static_cast<uint64_t>(request.number));
  text = fmt::format("{}", sum);
  AppendNumber(out, static_cast<uint64_t>(sum), 8);
  return absl::OkStatus();
}

absl::Status KeyStore::Handle(Client client, const StoreRequest& request,
                              Replies* replies) {
  using Operation = StoreRequest::Operation;
  const std::vector<std::string>& keys = request.keys;
  std::string out;
  switch (request.operation) {
    case Operation::kValidate:
      break;
    case Operation::kPing:
      AppendNumber(&out, static_cast<uint64_t>(request.number), 4);
      break;
    case Operation::kSet:
    case Operation::kSetMany:
      for (size_t i = 0; i < keys.size(); ++i)
        values_[keys[i]] = request.values[i];
      break;
    case Operation::kAppend:
      values_[keys[0]] += request.values[0];
      break;
    case Operation::kCompareSet: {
      const auto& [expected, wanted] = std::tie(request.values[0], request.values[1]);
      const auto found = values_.find(keys[0]);
      if (found == values_.end() ? expected.empty() : found->second == expected)
        values_[keys[0]] = wanted;
      AppendText(&out, Has(keys[0]) ? values_[keys[0]] : expected);
      break;
    }
    case Operation::kGet:
    case Operation::kGetMany:
      // Clients wait for a key before they get it; one that is gone since is empty.
      for (const std::string& key : keys)
        AppendText(&out, Has(key) ? values_[key] : std::string());
      break;
    case Operation::kAdd:
      if (absl::Status status = Add(request, &out); !status.ok())
        return status;
      break;
    case Operation::kCheck:
      AppendNumber(&out, HasAll(keys) ? kReady : kNotReady, 1);
      break;
    case Operation::kWait:
      waiting_[client] = keys;
      break;
    case Operation::kCancelWait:
      waiting_.erase(client);
      AppendNumber(&out, kCancelled, 1);
      break;
    case Operation::kCountKeys:
      AppendNumber(&out, values_.size(), 8);
      break;
    case Operation::kDelete:
      AppendNumber(&out, values_.erase(keys[0]), 8);
      break;
    case Operation::kListKeys:
      AppendNumber(&out, values_.size(), 8);
      for (const auto& [key, value] : values_)
        AppendText(&out, key);
      break;
  }
  if (!out.empty())
    (*replies)[client] += out;
  Wake(replies);
  return absl::OkStatus();
}

}  // namespace vrank::emulator
