#include "emulator/store/absent_ranks.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

constexpr size_t kUniqueIdBytes = 128;

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c); });
}

// "nccl_storekey_0" of the backend that PyTorch has had since 2.13, and
// "nccl_storekey_0_1": id 1 of a communicator with several (one per 128 ranks).
bool IsBootstrapKey(std::string_view last) {
  constexpr std::string_view kName = "nccl_storekey_";
  if (!last.starts_with(kName))
    return false;
  last.remove_prefix(kName.size());
  const size_t root = last.find('_');
  return IsNumber(last.substr(0, root)) &&
         (root == std::string_view::npos || IsNumber(last.substr(root + 1)));
}

// "3", "UniqueNCCLID:3", "0:1" (the two ends of a communicator of two).
bool NamesCommunicator(std::string_view last) {
  constexpr std::string_view kRoot = "UniqueNCCLID:";
  if (last.starts_with(kRoot))
    return IsNumber(last.substr(kRoot.size()));
  const size_t colon = last.find(':');
  return IsNumber(last.substr(0, colon)) &&
         (colon == std::string_view::npos || IsNumber(last.substr(colon + 1)));
}

bool ReadNumber(std::string_view text, uint32_t* number) {
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && last == end;
}

bool IsOfWorld(std::string_view key) {
  return key.substr(0, key.rfind("/cuda//")).ends_with("default_pg/0/");
}

std::string_view LastPart(std::string_view key) {
  const size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? key : key.substr(slash + 1);
}

// FNV-1a, 64 bit.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

bool HoldsCommunicatorId(std::string_view key) {
  return key.find("cuda//") != std::string_view::npos &&
         NamesCommunicator(LastPart(key));
}

std::optional<PairOfKey> PairOf(std::string_view key) {
  const std::string_view last = LastPart(key);
  const size_t colon = last.find(':');
  PairOfKey pair;
  if (!HoldsCommunicatorId(key) || colon == std::string_view::npos ||
      !ReadNumber(last.substr(0, colon), &pair.low) ||
      !ReadNumber(last.substr(colon + 1), &pair.high))
    return std::nullopt;
  pair.of_world = IsOfWorld(key);
  return pair;
}

bool IsKeyOfPytorch(std::string_view key) {
  return key.ends_with(":last_worker") || HoldsCommunicatorId(key) ||
         IsBootstrapKey(LastPart(key)) || GlooPrefix(key).has_value();
}

// torch 2.11, ProcessGroupNCCL.cpp, broadcastUniqueNCCLID: a group's first rank sets
// the id of a communicator of all of it; the id of one for transfers between two ranks,
// by whose ranks the key is called, is set by the lower one.
std::string MeaningOfKey(std::string_view key) {
  if (key.ends_with(":last_worker"))
    return "the end of a barrier, set by the last rank to arrive";
  const std::string_view last = LastPart(key);
  const size_t colon = last.find(':');
  const bool is_world = IsOfWorld(key);
  const char* const of_group = is_world ? "" : " of the group";
  if (!HoldsCommunicatorId(key))
    return GlooPrefix(key).has_value()
               ? fmt::format(
                     "the address of rank {} of a Gloo group, set by that rank "
                     "when it makes the group",
                     last)
               : "a key of the program, which no rank has set";
  if (colon == std::string_view::npos || !IsNumber(last.substr(0, colon)))
    return fmt::format(
        "the id of a communicator, set by rank 0{} when it begins a collective there",
        is_world ? "" : " of its group");
  return fmt::format(
      "the id of the communicator for sends and receives between ranks {0} and {1}{2}, "
      "set by rank {0}{2} when it sends to rank {1} or receives from it",
      last.substr(0, colon), last.substr(colon + 1), of_group);
}

absl::StatusOr<std::string> ValueOfAbsentRank(std::string_view key) {
  if (key.ends_with(":last_worker"))
    return std::string("1");
  if (IsBootstrapKey(LastPart(key)) || HoldsCommunicatorId(key)) {
    std::string id = fmt::format("vrank id of key {:016x} {}", Hash(key), key);
    id.resize(kUniqueIdBytes - 1);
    id.resize(kUniqueIdBytes);
    return id;
  }
  if (key.find("cpu//") != std::string_view::npos && GlooPrefix(key))
    return absl::UnimplementedError(fmt::format(
        "a rank of a Gloo group that is not real would have set store key '{}', and no "
        "real rank of the group has said in PyTorch 2.11's form where it listens: add "
        "all ranks of the group to --real",
        key));
  return absl::UnimplementedError(fmt::format(
      "a rank that is not real would have set store key '{}', and vrank does not know "
      "to what; add that rank to --real",
      key));
}

std::optional<std::string> GlooPrefix(std::string_view key) {
  const size_t slash = key.rfind('/');
  if (slash == std::string_view::npos || !IsNumber(key.substr(slash + 1)) ||
      key.find("cuda//") != std::string_view::npos)
    return std::nullopt;
  return std::string(key.substr(0, slash + 1));
}

}  // namespace vrank::emulator
