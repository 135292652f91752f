#include "graph/membership/deciding_rank.h"

#include <cstdlib>
#include <string>

#include <absl/strings/cord.h>

namespace vrank::graph {
namespace {

constexpr char kPayload[] = "vrank/deciding_rank";

}  // namespace

void AttachDecidingRank(int32_t rank, absl::Status* status) {
  status->SetPayload(kPayload, absl::Cord(std::to_string(rank)));
}

std::optional<int32_t> DecidingRankOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload)
    return std::nullopt;
  return static_cast<int32_t>(std::atoi(std::string(*payload).c_str()));
}

}  // namespace vrank::graph
