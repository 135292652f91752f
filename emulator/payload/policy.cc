#include "emulator/payload/policy.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/format_version.h"
#include "base/regular_file.h"
#include "base/status_macros.h"
#include "base/whole_file.h"
#include "emulator/payload/recorded_payloads.pb.h"

namespace vrank::emulator {
namespace {

constexpr uint32_t kFileVersion = 1;
constexpr uint64_t kMostFileBytes = (uint64_t{1} << 31) - 1;  // of a protobuf message
constexpr size_t kMostNamed = 8;
constexpr char kRecordAgain[] = "make it with --record-payloads";

constexpr std::pair<const char*, PayloadPolicy> kPolicies[] = {
    {"mirror", PayloadPolicy::kMirror},
    {"zero", PayloadPolicy::kZero},
    {"exact", PayloadPolicy::kExact},
    {"recorded", PayloadPolicy::kRecorded}};

bool IsOperation(const std::string& name) {
  if (name.find('*') != std::string::npos || name == "transfer")
    return true;
  for (int kind = 0; kind <= static_cast<int>(graph::CollectiveKind::kScatter); ++kind)
    if (name == graph::Name(static_cast<graph::CollectiveKind>(kind)))
      return true;
  return false;
}

}  // namespace

absl::StatusOr<PayloadRule> ParsePayloadRule(const std::string& text) {
  const size_t equals = text.rfind('=');
  const size_t colon = text.rfind(':', equals);
  const auto wrong = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        fmt::format("payload rule '{}': {}; write COMMUNICATOR:OPERATION=POLICY, as in "
                    "'world:broadcast=zero' or '*:*=exact'",
                    text, why));
  };
  if (equals == std::string::npos || colon == std::string::npos || colon == 0)
    return wrong("a part is missing");
  PayloadRule rule{text.substr(0, colon), text.substr(colon + 1, equals - colon - 1)};
  if (!IsOperation(rule.operation))
    return wrong(fmt::format("there is no operation '{}'", rule.operation));
  const std::string policy = text.substr(equals + 1);
  for (const auto& [name, value] : kPolicies) {
    if (policy == name) {
      rule.policy = value;
      return rule;
    }
  }
  return wrong(fmt::format("'{}' is none of mirror, zero, exact, recorded", policy));
}

PayloadPolicy PayloadRules::Find(const std::string& communicator,
                                 const std::string& operation,
                                 PayloadPolicy otherwise) {
  if (asked_.size() < kMostNamed)
    asked_.insert(communicator);
  const auto fits = [](const std::string& pattern, const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  };
  const auto found =
      std::find_if(rules_.rbegin(), rules_.rend(), [&](const Rule& each) {
        return fits(each.rule.communicator, communicator) &&
               fits(each.rule.operation, operation);
      });
  if (found == rules_.rend())
    return otherwise;
  found->used = true;
  return found->rule.policy;
}

std::string PayloadRules::DescribeUnused() const {
  std::vector<std::string> unused, named;
  for (const auto& [rule, used] : rules_)
    if (!used)
      unused.push_back(fmt::format("'{}:{}'", rule.communicator, rule.operation));
  if (unused.empty() || asked_.empty())
    return "";
  for (const std::string& communicator : asked_)
    named.push_back(fmt::format("'{}'", communicator));
  return fmt::format("{} decided nothing; values were read of {}{}",
                     fmt::join(unused, ", "), fmt::join(named, ", "),
                     asked_.size() < kMostNamed ? "" : " and maybe others");
}

std::string NameOfResult(const std::string& communicator, uint32_t member,
                         const graph::CollectiveCall& call, uint32_t calls_before) {
  return fmt::format("{} {} {} {} {} {} root {} #{}", communicator, member,
                     graph::Name(call.operation), graph::Name(call.reduction),
                     graph::Name(call.type), call.count, call.root, calls_before);
}

std::string NameOfTransfer(const std::string& communicator, uint32_t from, uint32_t to,
                           uint32_t transfers_before) {
  return fmt::format("{} transfer {} to {} #{}", communicator, from, to,
                     transfers_before);
}

void RecordedPayloads::Add(const std::string& name, uint64_t offset,
                           std::span<const std::byte> bytes) {
  Pieces& pieces = values_[name];
  auto piece = pieces.upper_bound(offset);
  const bool continues =
      piece != pieces.begin() &&
      std::prev(piece)->first + std::prev(piece)->second.size() >= offset;
  piece = continues ? std::prev(piece)
                    : pieces.emplace(offset, std::vector<std::byte>()).first;
  std::vector<std::byte>& data = piece->second;
  const uint64_t at = offset - piece->first;
  data.resize(std::max<uint64_t>(data.size(), at + bytes.size()));
  std::copy(bytes.begin(), bytes.end(), data.begin() + static_cast<ptrdiff_t>(at));
  // What it has reached is a part of it.
  for (auto next = std::next(piece);
       next != pieces.end() && next->first <= piece->first + data.size();
       next = pieces.erase(next)) {
    const uint64_t covered = std::min<uint64_t>(
        piece->first + data.size() - next->first, next->second.size());
    data.insert(data.end(), next->second.begin() + static_cast<ptrdiff_t>(covered),
                next->second.end());
  }
}

std::span<const std::byte> RecordedPayloads::Find(const std::string& name,
                                                  uint64_t offset,
                                                  uint64_t limit) const {
  const auto value = values_.find(name);
  if (value == values_.end())
    return {};
  auto piece = value->second.upper_bound(offset);
  if (piece == value->second.begin())
    return {};
  --piece;
  const uint64_t skip = offset - piece->first;
  if (skip >= piece->second.size())
    return {};
  const std::span<const std::byte> rest = std::span(piece->second).subspan(skip);
  return rest.first(std::min<uint64_t>(limit, rest.size()));
}

absl::Status RecordedPayloads::Save(const std::string& path) const {
  RecordedPayloadsFile file;
  file.set_version(kFileVersion);
  for (const auto& [name, pieces] : values_) {
    for (const auto& [offset, bytes] : pieces) {
      auto* piece = file.add_pieces();
      piece->set_name(name);
      piece->set_offset(offset);
      piece->set_data(bytes.data(), bytes.size());
    }
  }
  // A part of it would pass for all of it.
  errno = 0;
  WholeFile out(path);
  if (out.stream() != nullptr && file.SerializeToFileDescriptor(fileno(out.stream())) &&
      out.Commit())
    return absl::OkStatus();
  const int error = errno;
  return absl::UnavailableError(
      fmt::format("recorded payloads '{}': cannot be written: {}; is there room, and "
                  "may the file be changed?",
                  path, std::strerror(error)));
}

absl::StatusOr<RecordedPayloads> RecordedPayloads::Load(const std::string& path) {
  const std::string subject = fmt::format("recorded payloads '{}'", path);
  const absl::StatusOr<std::string> bytes = ReadRegularFile(path, kMostFileBytes);
  if (!bytes.ok())
    return absl::Status(
        bytes.status().code(),
        fmt::format("{}: {}", subject, std::string(bytes.status().message())));
  RecordedPayloadsFile file;
  if (!file.ParseFromString(*bytes))
    return absl::DataLossError(fmt::format(
        "{}: this is no such file, or a part of one; {}", subject, kRecordAgain));
  RETURN_IF_ERROR(
      CheckFormatVersion(subject, file.version(), kFileVersion, kRecordAgain));
  RecordedPayloads result;
  for (const auto& piece : file.pieces())
    result.Add(piece.name(), piece.offset(),
               std::as_bytes(std::span(piece.data().data(), piece.data().size())));
  return result;
}

}  // namespace vrank::emulator
