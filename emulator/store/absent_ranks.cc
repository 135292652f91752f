#include "emulator/store/absent_ranks.h"

#include <algorithm>
#include <cctype>
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

// FNV-1a, 64 bit.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

absl::StatusOr<std::string> ValueOfAbsentRank(std::string_view key) {
  if (key.ends_with(":last_worker"))
    return std::string("1");
  const size_t slash = key.rfind('/');
  const std::string_view last =
      slash == std::string_view::npos ? key : key.substr(slash + 1);
  if (IsBootstrapKey(last) ||
      (key.find("cuda//") != std::string_view::npos && NamesCommunicator(last))) {
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
