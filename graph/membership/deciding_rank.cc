#include "graph/membership/deciding_rank.h"

#include <string>
#include <vector>

#include <absl/strings/cord.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

namespace vrank::graph {
namespace {

constexpr char kPayload[] = "vrank/deciding_ranks";

}  // namespace

void AttachDecidingRank(int32_t rank, absl::Status* status) {
  AttachDecidingRanks({rank}, status);
}

void AttachDecidingRanks(const std::vector<int32_t>& ranks, absl::Status* status) {
  status->SetPayload(kPayload, absl::Cord(absl::StrJoin(ranks, ",")));
}

std::vector<int32_t> DecidingRanksOf(const absl::Status& status) {
  std::vector<int32_t> ranks;
  const auto payload = status.GetPayload(kPayload);
  if (!payload)
    return ranks;
  const std::string text(*payload);
  for (const std::string& each :
       std::vector<std::string>(absl::StrSplit(text, ',', absl::SkipEmpty())))
    ranks.push_back(std::stoi(each));
  return ranks;
}

std::optional<int32_t> DecidingRankOf(const absl::Status& status) {
  const std::vector<int32_t> ranks = DecidingRanksOf(status);
  if (ranks.empty())
    return std::nullopt;
  return ranks.front();
}

}  // namespace vrank::graph
