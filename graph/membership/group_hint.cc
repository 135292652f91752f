// Parsing and printing --group.

#include "graph/membership/group_hint.h"

#include <charconv>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"

namespace vrank::graph {

std::string GroupHint::ToString(const Layout& layout) const {
  const std::string stages =
      classes.empty() ? "" : fmt::format("@{}", FormatRanks(classes));
  return fmt::format("{}:{}={}{}", is_init ? "init" : layout.SetName(parent), number,
                     layout.SetName(dimensions), stages);
}

absl::StatusOr<GroupHint> ParseGroupHint(const std::string& text,
                                         const Layout& layout) {
  auto malformed = [&](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format(
        "--group '{}': {}; write it like world:2=tp-dp or world:3=pp@0,15", text, why));
  };
  const size_t colon = text.find(':');
  const size_t equals = text.find('=');
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) {
    return malformed("it is not PARENT:NUMBER=DIMENSIONS");
  }
  GroupHint hint;
  const std::string parent = text.substr(0, colon);
  hint.is_init = parent == "init";
  if (!hint.is_init) {
    const auto set = layout.ParseSet(parent);
    if (!set.ok()) {
      return malformed(std::string(set.status().message()));
    }
    hint.parent = *set;
  }
  const char* const begin = text.data() + colon + 1;
  const char* const end = text.data() + equals;
  const auto [stop, error] = std::from_chars(begin, end, hint.number);
  if (error != std::errc() || stop != end) {
    return malformed("the part between ':' and '=' is no number");
  }
  const size_t at = text.find('@', equals);
  const auto set = layout.ParseSet(
      text.substr(equals + 1, at == std::string::npos ? at : at - equals - 1));
  if (!set.ok()) {
    return malformed(std::string(set.status().message()));
  }
  hint.dimensions = *set;
  if (at != std::string::npos) {
    ASSIGN_OR_RETURN(const RankList classes,
                     ParseRankList(text.substr(at + 1), layout.classes()));
    hint.classes = classes.ranks;
  }
  return hint;
}

}  // namespace vrank::graph
