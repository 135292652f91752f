#include "tools/job/run_losses.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include <absl/strings/ascii.h>

#include "base/guest/anchor_history.h"
#include "emulator/world/world.h"
#include "graph/models/kernel_costs.h"

namespace vrank::tools {
namespace {

struct LossText {
  const char* name;
  const char* meaning;
};
constexpr LossText kLosses[] = {
#define VRANK_LOSS(id, name, meaning) {name, meaning},
#include "base/guest/losses.def"
#undef VRANK_LOSS
};

// Gaps that a recording knows by fewer calls than it could, or not at all.
void AddGapLosses(const std::vector<uint64_t>& found, std::vector<LossRow>* losses) {
  constexpr const char* kKnownBy[] = {"8 calls before", "3 calls before",
                                      "the call before", "the kind of call before"};
  static_assert(std::size(kKnownBy) == kAnchorDepths.size());
  for (size_t i = 1; i < kAnchorDepths.size(); ++i)
    if (found[i] != 0)
      losses->push_back(LossRow{
          "host_time_by_fewer_calls", kKnownBy[i], found[i],
          "what the program computes between two calls was not recorded after the same "
          "eight calls: the median after fewer of them was taken"});
  if (found.back() != 0)
    losses->push_back(LossRow{"host_time_unknown", "", found.back(),
                              "what the program computes between two calls was not "
                              "recorded: it took no time"});
}

}  // namespace

std::string DemangleAll(const std::string& text) {
  std::string result;
  size_t at = 0;
  for (size_t name; (name = text.find("_Z", at)) != std::string::npos;) {
    const auto end = std::find_if_not(
        text.begin() + static_cast<std::ptrdiff_t>(name), text.end(), [](char c) {
          return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
                 c == '.' || c == '$';
        });
    result += text.substr(at, name - at);
    at = static_cast<size_t>(end - text.begin());
    result += graph::Demangle(text.substr(name, at - name));
  }
  return result + text.substr(at);
}

std::pair<std::string, std::string> SplitReason(const std::string& subject) {
  constexpr std::string_view kBetween = ": ";
  const size_t end = subject.find(kBetween);
  return end == std::string::npos
             ? std::pair(subject, std::string())
             : std::pair(subject.substr(0, end), subject.substr(end + kBetween.size()));
}

std::vector<uint64_t> GapsFound(const Run& run, std::optional<int32_t> rank) {
  std::vector<uint64_t> sum(kAnchorDepths.size() + 1);
  for (const auto& real : run.session().world().real())
    if (!rank.has_value() || real->rank() == *rank)
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] += real->link().gaps_found()[i];
  return sum;
}

const char* NameOf(LossId loss) {
  return kLosses[static_cast<size_t>(loss)].name;
}

std::vector<LossRow> MakeLosses(const Run& run, std::optional<int32_t> rank) {
  const emulator::World& world = run.session().world();
  std::vector<LossRow> losses;
  for (const auto& [key, count] : world.TotalLosses(rank)) {
    if (key.first >= std::size(kLosses))
      continue;
    losses.push_back(LossRow{kLosses[key.first].name, DemangleAll(key.second), count,
                             kLosses[key.first].meaning});
  }
  if (world.payloads().dropped_bytes() > 0)
    losses.push_back(
        LossRow{"dropped_payload_bytes", "", world.payloads().dropped_bytes(),
                "known bytes of old results that exceeded the memory set aside for "
                "them; they count as computed"});
  AddGapLosses(GapsFound(run, rank), &losses);
  const emulator::Session::GlooBytes& gloo = run.session().gloo_bytes();
  if (gloo.mirrored > 0)
    losses.push_back(
        LossRow{"gloo_mirrored_bytes", "", gloo.mirrored,
                "ranks that are not real contributed to Gloo's gathers and all-gathers "
                "what the nearest real rank before them did"});
  for (const auto& [operation, bytes] : gloo.zero)
    losses.push_back(LossRow{"gloo_zero_bytes", operation, bytes,
                             "bytes that ranks which are not real would have sent over "
                             "Gloo reached the real ones as zero"});
  for (const std::string& assumption : run.membership().assumptions())
    losses.push_back(
        LossRow{"assumed_membership", assumption, 1,
                "who belongs to a communicator was assumed for absent stages"});
  if (const uint64_t splits = run.membership().splits_nobody_joined(); splits != 0)
    losses.push_back(LossRow{
        "splits_that_nobody_joined", "", splits,
        "splits of communicators for groups of ranks that are not real: those "
        "make their groups when the rank does that they follow, all at once, so "
        "that the job starts earlier than it would"});
  return losses;
}

}  // namespace vrank::tools
