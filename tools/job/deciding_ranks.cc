#include "tools/job/deciding_ranks.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/interruption.h"
#include "base/rank_list.h"
#include "graph/membership/deciding_rank.h"
#include "tools/terminal/say.h"

namespace vrank::tools {

absl::Status RunWithDecidingRanks(
    std::vector<int32_t>* real_ranks,
    const std::function<absl::Status(const std::vector<int32_t>&)>& attempt,
    bool quiet) {
  const size_t most = real_ranks->size() + graph::kMostDecidingRanks;
  while (true) {
    const absl::Status status = attempt(*real_ranks);
    // A signal that arrived while the attempt ended has had no effect so far.
    if (status.ok() || Interruption() != 0)
      return status;
    std::vector<int32_t> deciding = graph::DecidingRanksOf(status);
    std::erase_if(deciding, [&](int32_t rank) {
      return std::binary_search(real_ranks->begin(), real_ranks->end(), rank);
    });
    if (deciding.empty() || real_ranks->size() + deciding.size() > most)
      return status;
    std::sort(deciding.begin(), deciding.end());
    if (!quiet)
      Say("vrank: the calls of rank{} {} leave open who belongs to a communicator, or "
          "what others send; starting again with rank{} {} as {}, too\n",
          real_ranks->size() == 1 ? "" : "s", FormatRanks(*real_ranks),
          deciding.size() == 1 ? "" : "s", FormatRanks(deciding),
          deciding.size() == 1 ? "a real rank" : "real ranks");
    std::vector<int32_t> all;
    std::set_union(real_ranks->begin(), real_ranks->end(), deciding.begin(),
                   deciding.end(), std::back_inserter(all));
    *real_ranks = std::move(all);
  }
}

}  // namespace vrank::tools
