#include "graph/import/communication_match.h"

#include <fmt/format.h>

namespace vrank::graph {

std::string RankCommunication::Subject() const {
  return fmt::format("rank {} ('{}')", rank, recording->file);
}

absl::Status CheckOneRun(const CommunicationMatch& match) {
  for (const auto& [rank, why] : match.unpaired)
    if (match.collectives.count(rank) == 0 && match.transfers.count(rank) == 0)
      return why;
  return absl::OkStatus();
}

}  // namespace vrank::graph
