#include "tools/deciding_ranks.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "graph/membership/deciding_rank.h"
#include "tools/say.h"

namespace vrank::tools {

absl::Status RunWithDecidingRanks(
    std::vector<int32_t>* real_ranks,
    const std::function<absl::Status(const std::vector<int32_t>&)>& attempt,
    bool quiet) {
  for (size_t added = 0;; ++added) {
    const absl::Status status = attempt(*real_ranks);
    if (status.ok())
      return status;
    const std::optional<int32_t> deciding = graph::DecidingRankOf(status);
    if (!deciding.has_value() || added == kMostDecidingRanks ||
        std::binary_search(real_ranks->begin(), real_ranks->end(), *deciding))
      return status;
    if (!quiet)
      Say("vrank: the calls of ranks {} leave open who belongs to a communicator; "
          "starting again with rank {} as a real rank, too\n",
          FormatRanks(*real_ranks), *deciding);
    real_ranks->insert(
        std::upper_bound(real_ranks->begin(), real_ranks->end(), *deciding), *deciding);
  }
}

}  // namespace vrank::tools
