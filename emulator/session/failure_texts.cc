#include "emulator/session/failure_texts.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "emulator/session/rank_exit.h"
#include "emulator/store/absent_ranks.h"
#include "graph/membership/deciding_rank.h"

namespace vrank::emulator {
namespace {

constexpr size_t kLinesShown = 12;
constexpr size_t kStoreLinesShown = 4;

uint64_t CopiedObjectsOf(int32_t rank, const World& world, const GlooPeers& gloo) {
  uint64_t objects = gloo.copied_objects();
  for (const auto& real : world.real())
    objects += real->rank() == rank ? real->copied_objects() : 0;
  return objects;
}

std::string WaitingLines(const World& world) {
  std::string text;
  for (const std::string& line : world.DescribeBlocked(kLinesShown))
    text += "\n  " + line;
  return text;
}

std::string StoreLines(const StoreServer& store) {
  std::string text;
  std::set<std::string> lines;
  for (const StoreServer::Wait& wait : store.Waits()) {
    if (lines.size() == kStoreLinesShown)
      break;
    const std::string line = fmt::format(
        "\n  {} waits at the store for key '{}': {}",
        wait.rank.has_value() ? fmt::format("rank {}", *wait.rank) : "a process",
        wait.key, MeaningOfKey(wait.key));
    if (lines.insert(line).second)
      text += line;
  }
  return text;
}

bool IsCudnns(const std::string& call) {
  return call.starts_with("cudnn") || call.find("cuDNN") != std::string::npos;
}

}  // namespace

std::string Meanwhile(const World& world, const StoreServer& store) {
  const std::string waiting = WaitingLines(world);
  return (waiting.empty() ? "" : "; meanwhile" + waiting) + StoreLines(store);
}

std::string RefusedCalls(const World& world) {
  std::vector<std::string> refused;
  for (const auto& [loss, amount] : world.TotalLosses())
    if (loss.first == static_cast<uint32_t>(LossId::kRefusedCall) &&
        loss.second != "cudnnGetVersion")  // PyTorch continues without cuDNN
      refused.push_back(loss.second);
  if (refused.empty())
    return "";
  return fmt::format("{}{}", fmt::join(refused, ", "),
                     std::any_of(refused.begin(), refused.end(), IsCudnns)
                         ? " (with torch.backends.cudnn.enabled = False PyTorch's own "
                           "kernels run in place of cuDNN's)"
                         : "");
}

std::string MeanwhileOrRefused(const World& world, const StoreServer& store) {
  const std::string refused = RefusedCalls(world);
  return Meanwhile(world, store) +
         (refused.empty() ? ""
                          : "\n  calls that vrank has refused, perhaps what is waited "
                            "for: " +
                                refused);
}

std::string MadeUpFor(int32_t rank, const World& world, const GlooPeers& gloo,
                      int32_t world_size) {
  const auto& real = world.real();
  if (std::any_of(real.begin(), real.end(), [rank](const auto& one) {
        return one->rank() == rank && one->decoder().is_short_of_memory();
      }))
    return "; a call had found too little memory left on its GPU, which is what "
           "PyTorch "
           "reports as torch.OutOfMemoryError";
  uint64_t bytes = 0;
  for (const auto& [loss, amount] : world.TotalLosses(rank)) {
    const auto is = [number = loss.first](LossId id) {
      return number == static_cast<uint32_t>(id);
    };
    if (is(LossId::kComputedToHost) ||
        (is(LossId::kMirroredBytes) && loss.second.empty()))
      bytes += amount;
  }
  // The kernels that compute a received value may run on the sender.
  std::string text =
      bytes == 0 ? ""
                 : fmt::format(
                       "; it had read {} bytes that vrank made up: what kernels would "
                       "have computed (--values), or ranks that are not real would "
                       "have sent (more ranks with --real; --payload, "
                       "--recorded-payloads)",
                       bytes);
  uint64_t zeros = 0;
  for (const auto& [operation, count] : gloo.zero_bytes())
    zeros += count;
  if (const uint64_t copies = gloo.mirrored_bytes(); copies + zeros != 0)
    text += fmt::format(
        "; over Gloo, ranks that are not real had sent {} bytes of what real ones "
        "sent, and {} zeros",
        copies, zeros);
  if (const uint64_t objects = CopiedObjectsOf(rank, world, gloo); objects != 0)
    text += fmt::format(
        "; {} object{} that it had gathered {} of what real ranks sent in place of "
        "virtual ones: a checkpoint of sharded parameters needs each rank's own, so "
        "that it runs with all ranks real (--real 0-{}), or is to be left out",
        objects, objects == 1 ? "" : "s", objects == 1 ? "was a copy" : "were copies",
        world_size - 1);
  return text;
}

void AttachCopiedRanks(int32_t rank, const World& world, const GlooPeers& gloo,
                       int32_t world_size, absl::Status* error) {
  const auto& real = world.real();
  if (CopiedObjectsOf(rank, world, gloo) == 0 ||
      static_cast<size_t>(world_size) > real.size() + graph::kMostDecidingRanks)
    return;
  std::vector<int32_t> others;
  for (int32_t other = 0; other < world_size; ++other)
    if (std::none_of(real.begin(), real.end(),
                     [other](const auto& one) { return one->rank() == other; }))
      others.push_back(other);
  if (!others.empty())
    graph::AttachDecidingRanks(others, error);
}

absl::Status StuckError(const World& world, const StoreServer& store,
                        const LaunchOptions& launch,
                        const std::map<int32_t, ExitStatus>& exits,
                        const std::vector<int32_t>& lost, const std::string& threads) {
  std::vector<int32_t> gone;
  for (const auto& rank : world.real())
    if (rank->closed())
      gone.push_back(rank->rank());
  std::string who =
      "the job is stuck: every real rank waits, and nothing can move; do all ranks "
      "make the same calls in the same order?";
  if (!threads.empty() && gone.empty() && store.Waits().empty())
    who =
        "the job is stuck: every thread of every real rank waits for another one or "
        "for the GPU, none of them with a limit, and nothing can move";
  const auto is_lost = [&lost](int32_t rank) {
    return std::find(lost.begin(), lost.end(), rank) != lost.end();
  };
  if (const auto first = std::find_if(gone.begin(), gone.end(), is_lost);
      first != gone.end())
    who = fmt::format(
        "rank {} {}, and the job is stuck without it: who goes on aborts the "
        "communicators that it was in (ncclCommAbort, or ncclCommShrink with "
        "NCCL_SHRINK_ABORT that leaves it out); {}",
        *first, DescribeExit(exits.at(*first)),
        AfterExit(launch, *first, exits.at(*first)));
  else if (gone.size() == 1 && exits.count(gone[0]) != 0)
    who = fmt::format(
        "rank {} {} while others wait for it: it has ended early, or leaves out calls "
        "that they make; {}",
        gone[0], DescribeExit(exits.at(gone[0])),
        AfterExit(launch, gone[0], exits.at(gone[0])));
  else if (!gone.empty())
    who = fmt::format(
        "the job is stuck: the programs of ranks {} have ended while others wait; do "
        "all ranks make the same calls?",
        FormatRanks(gone));
  absl::Status stuck =
      absl::AbortedError(who + StoreLines(store) + WaitingLines(world) + threads);
  // Followers exchange data as their leader does, which need not be so in the real job:
  // with them real, it may end otherwise.
  const std::set<int32_t>& exchanging = world.exchanging_followers();
  if (gone.empty() && !exchanging.empty() &&
      exchanging.size() <= graph::kMostDecidingRanks)
    graph::AttachDecidingRanks({exchanging.begin(), exchanging.end()}, &stuck);
  return stuck;
}

}  // namespace vrank::emulator
