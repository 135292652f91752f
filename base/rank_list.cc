// Parsing and printing lists of ranks.

#include "base/rank_list.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "base/status_macros.h"

namespace vrank {
namespace {

absl::Status Malformed(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format(
      "rank list '{}': {}; write ranks and ranges like 0,3-7,512, or each", text, why));
}

absl::StatusOr<int32_t> ParseRank(std::string_view part, const std::string& text) {
  int32_t rank = 0;
  const char* const end = part.data() + part.size();
  const auto [stop, error] = std::from_chars(part.data(), end, rank);
  if (error != std::errc() || stop != end || rank < 0) {
    return Malformed(text, fmt::format("'{}' is no rank", part));
  }
  return rank;
}

}  // namespace

absl::StatusOr<RankList> ParseRankList(const std::string& text, int32_t world_size) {
  RankList list;
  if (text == "each") {
    list.each = true;
    list.ranks.resize(static_cast<size_t>(world_size));
    std::iota(list.ranks.begin(), list.ranks.end(), 0);
    return list;
  }
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t dash = part.find('-');
    ASSIGN_OR_RETURN(const int32_t first, ParseRank(part.substr(0, dash), text));
    int32_t last = first;
    if (dash != std::string_view::npos) {
      ASSIGN_OR_RETURN(last, ParseRank(part.substr(dash + 1), text));
    }
    if (last < first) {
      return Malformed(text, fmt::format("range '{}' runs backwards", part));
    }
    if (last >= world_size) {
      return absl::OutOfRangeError(
          fmt::format("rank list '{}': rank {} is not in a world of {} (0-{})", text,
                      last, world_size, world_size - 1));
    }
    for (int32_t rank = first; rank <= last; ++rank) {
      list.ranks.push_back(rank);
    }
    if (comma == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(comma + 1);
  }
  std::sort(list.ranks.begin(), list.ranks.end());
  list.ranks.erase(std::unique(list.ranks.begin(), list.ranks.end()), list.ranks.end());
  return list;
}

std::string FormatRanks(std::span<const int32_t> ranks) {
  std::string text;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
      ++end;
    }
    if (end - begin >= 3) {
      text +=
          fmt::format("{}{}-{}", text.empty() ? "" : ",", ranks[begin], ranks[end - 1]);
      begin = end;
    } else {
      text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[begin]);
      ++begin;
    }
  }
  return text;
}

}  // namespace vrank
