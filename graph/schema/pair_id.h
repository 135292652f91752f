// The unique id, in slices and graphs, of a communicator of two ranks whose ends the
// job's store named (graph/membership/pair_inits.h): it says which two, since nothing
// else in them does.
//
// Thread rule: pure functions. Ranks are world ranks.

#ifndef VRANK_GRAPH_SCHEMA_PAIR_ID_H_
#define VRANK_GRAPH_SCHEMA_PAIR_ID_H_

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/guest/protocol.h"

namespace vrank::graph {

// What the names of such communicators begin with.
inline constexpr std::string_view kPairName = "pair@";

// Both ends, in the order of the communicator.
using Pair = std::pair<int32_t, int32_t>;
using PairId = std::array<uint8_t, protocol::kUniqueIdBytes>;

inline constexpr std::string_view kPairIdBegins = "vrank pair ";

inline PairId IdOfPair(const Pair& pair) {
  const std::string text =
      fmt::format("{}{}:{}", kPairIdBegins, pair.first, pair.second);
  PairId id{};
  std::copy(text.begin(), text.end(), id.begin());
  return id;
}

// nullopt: it is no such id.
inline std::optional<Pair> PairOfId(const PairId& id) {
  const std::string_view text(reinterpret_cast<const char*>(id.data()), id.size());
  if (!text.starts_with(kPairIdBegins))
    return std::nullopt;
  const char* const end = text.data() + text.size();
  Pair pair;
  const auto first =
      std::from_chars(text.data() + kPairIdBegins.size(), end, pair.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':')
    return std::nullopt;
  if (std::from_chars(first.ptr + 1, end, pair.second).ec != std::errc())
    return std::nullopt;
  return pair;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCHEMA_PAIR_ID_H_
