// What is said of a job that has failed, and what the other ranks may do then.
//
// With NCCL a rank that dies, or makes another call than the others, leaves these in a
// communicator whose work never ends. They notice by ncclCommGetAsyncError or by a time
// limit, abort it, write down what they have, and end with a code of their own. So it
// is here: the ranks are told (GuestLink::Fail), which ends every wait, and get a while
// of real time to react. Nobody keeps virtual time any more: a rank's clock moves by
// what it spends itself, and limits of waits are reached as soon as it is quiet. What
// earlier results hold can still be asked.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/guest/channel.h"
#include "base/rank_list.h"
#include "emulator/session/rank_exit.h"
#include "emulator/session/schedule_log.h"
#include "emulator/session/session.h"
#include "graph/membership/deciding_rank.h"
#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

using schedule::Milliseconds;
using std::chrono::milliseconds;

constexpr size_t kLinesShown = 12;

// The job's own failures: the others are about vrank, its files or its user. One that
// another rank would decide is none yet: the job starts again.
bool IsOfTheJob(const absl::Status& status) {
  return (absl::IsAborted(status) || absl::IsDeadlineExceeded(status) ||
          absl::IsInvalidArgument(status)) &&
         graph::DecidingRanksOf(status).empty();
}

// A message's first clause: who, and what happened to it. Lists in parentheses are part
// of it.
std::string FirstClause(const absl::Status& status) {
  const std::string message(status.message());
  int depth = 0;
  for (size_t i = 0; i < message.size(); ++i) {
    depth += message[i] == '(' ? 1 : message[i] == ')' ? -1 : 0;
    if (message[i] == '\n' || (message[i] == ';' && depth <= 0))
      return message.substr(0, i);
  }
  return message;
}

}  // namespace

// What ranks are told: what happened, and the first wait that comes of it where the
// message lists some, which names communicator, sequence and call.
std::string Session::ReasonFor(const absl::Status& status) const {
  const std::string message(status.message());
  const size_t begin = message.find("\n  ");
  std::string wait;
  if (begin != std::string::npos)
    wait = "; " + message.substr(begin + 3, message.find('\n', begin + 1) - begin - 3);
  return FirstClause(status) + wait;
}

std::string Session::WaitingLines() const {
  std::string text;
  for (const std::string& line : world_->DescribeBlocked(kLinesShown))
    text += "\n  " + line;
  return text;
}

namespace {

bool IsCudnns(const std::string& call) {
  return call.starts_with("cudnn") || call.find("cuDNN") != std::string::npos;
}

}  // namespace

std::string Session::RefusedCalls() const {
  std::vector<std::string> refused;
  for (const auto& [loss, amount] : world_->TotalLosses())
    if (loss.first == static_cast<uint32_t>(LossId::kRefusedCall) &&
        loss.second != "cudnnGetVersion")  // PyTorch goes on without cuDNN
      refused.push_back(loss.second);
  if (refused.empty())
    return "";
  return fmt::format("{}{}", fmt::join(refused, ", "),
                     std::any_of(refused.begin(), refused.end(), IsCudnns)
                         ? " (with torch.backends.cudnn.enabled = False PyTorch's own "
                           "kernels run in place of cuDNN's)"
                         : "");
}

std::string Session::Meanwhile() const {
  const std::string waiting = WaitingLines();
  return (waiting.empty() ? "" : "; meanwhile" + waiting) + StoreLines();
}

std::string Session::MeanwhileOrRefused() const {
  const std::string refused = RefusedCalls();
  return Meanwhile() + (refused.empty() ? ""
                                        : "\n  calls that vrank has refused, perhaps "
                                          "what is waited for: " +
                                              refused);
}

std::string Session::MadeUpFor(int32_t rank) const {
  uint64_t bytes = 0;
  for (const auto& [loss, amount] : world_->TotalLosses(rank)) {
    const auto is = [number = loss.first](LossId id) {
      return number == static_cast<uint32_t>(id);
    };
    if (is(LossId::kComputedToHost) ||
        (is(LossId::kMirroredBytes) && loss.second.empty()))
      bytes += amount;
  }
  // A received value may be one that kernels of the sender would have computed.
  std::string text =
      bytes == 0 ? ""
                 : fmt::format(
                       "; it had read {} bytes that vrank made up: what kernels would "
                       "have computed (--values), or ranks that are not real would "
                       "have sent (more ranks with --real; --payload, "
                       "--recorded-payloads)",
                       bytes);
  uint64_t zeros = 0;
  for (const auto& [operation, count] : store_->gloo().zero_bytes())
    zeros += count;
  if (const uint64_t copies = store_->gloo().mirrored_bytes(); copies + zeros != 0)
    text += fmt::format(
        "; over Gloo, ranks that are not real had sent {} bytes of what real ones "
        "sent, and {} zeros: a program that needs each rank's own, as a checkpoint "
        "of sharded parameters does, runs with all ranks real (--real 0-{})",
        copies, zeros, options_.world_size - 1);
  return text;
}

absl::Status Session::StuckError() const {
  std::vector<int32_t> gone;
  for (const auto& rank : world_->real())
    if (rank->closed())
      gone.push_back(rank->rank());
  std::string who =
      "the job is stuck: every real rank waits, and nothing can move; do all ranks "
      "make the same calls in the same order?";
  const auto is_lost = [this](int32_t rank) { return IsLost(rank); };
  if (const auto lost = std::find_if(gone.begin(), gone.end(), is_lost);
      lost != gone.end())
    who = fmt::format(
        "rank {} {}, and the job is stuck without it: who goes on aborts the "
        "communicators that it was in (ncclCommAbort, or ncclCommShrink with "
        "NCCL_SHRINK_ABORT that leaves it out); {}",
        *lost, DescribeExit(exits_.at(*lost)),
        AfterExit(options_.launch, *lost, exits_.at(*lost)));
  else if (gone.size() == 1 && exits_.count(gone[0]) != 0)
    who = fmt::format(
        "rank {} {} while others wait for it: it has ended early, or leaves out calls "
        "that they make; {}",
        gone[0], DescribeExit(exits_.at(gone[0])),
        AfterExit(options_.launch, gone[0], exits_.at(gone[0])));
  else if (!gone.empty())
    who = fmt::format(
        "the job is stuck: the programs of ranks {} have ended while others wait; do "
        "all ranks make the same calls?",
        FormatRanks(gone));
  absl::Status stuck = absl::AbortedError(who + StoreLines() + WaitingLines());
  // Ranks that follow exchange data as their leader does: perhaps they do not.
  const std::set<int32_t>& exchanging = world_->exchanging_followers();
  if (gone.empty() && !exchanging.empty() &&
      exchanging.size() <= graph::kMostDecidingRanks)
    graph::AttachDecidingRanks({exchanging.begin(), exchanging.end()}, &stuck);
  return stuck;
}

bool Session::MayReact(const RealRank& rank) const {
  return exits_.count(rank.rank()) == 0 && rank.rank() != hung_ &&
         rank.link().connected() && rank.link().owner_pid() != 0;
}

std::string Session::HowOthersEnded(const std::set<int32_t>& others) const {
  std::map<std::string, std::vector<int32_t>> ends;
  for (const int32_t rank : others) {
    const auto exit = exits_.find(rank);
    ends[exit != exits_.end() ? DescribeExit(exit->second) : ""].push_back(rank);
  }
  std::string text;
  for (const auto& [how, ranks] : ends) {
    std::string verb = how.empty() ? fmt::format("was ended after {} s",
                                                 options_.failure_grace.count() / 1e3)
                                   : how;
    const bool one = ranks.size() == 1;
    if (!one && verb.starts_with("was "))
      verb.replace(0, 3, "were");
    text += fmt::format("{}rank{} {} {}", text.empty() ? "" : ", ", one ? "" : "s",
                        FormatRanks(ranks), verb);
  }
  return text;
}

void Session::LetRanksReact(absl::Status* status) {
  if (!IsOfTheJob(*status) || options_.failure_grace.count() == 0 ||
      supervisor_ == nullptr)
    return;
  std::set<int32_t> others;
  for (const auto& rank : world_->real())
    if (MayReact(*rank))
      others.insert(rank->rank());
  if (others.empty())
    return;
  const std::string reason = FirstClause(*status);
  if (options_.on_note)
    options_.on_note(fmt::format(
        "{}; the other ranks are told by NCCL, and have {} s to end (--failure-grace)",
        reason, options_.failure_grace.count() / 1e3));
  const std::string told = ReasonFor(*status);
  for (const auto& link : links_)
    link->Fail(told);
  std::map<int32_t, QuietWatch> quiet;
  std::map<int32_t, uint64_t> never_came;  // bytes that were looked at
  const auto end = QuietWatch::Clock::now() + options_.failure_grace;
  while (QuietWatch::Clock::now() < end) {
    if (!PollEvents(Milliseconds(schedule::kFailureLook)).ok())
      return;  // the user has had enough, or the ranks' keeper is gone
    bool any = false;
    for (const auto& rank : world_->real()) {
      GuestLink& link = rank->link();
      while (const protocol::Record* record = link.Next()) {
        if (const uint64_t bytes =
                rank->AnswerAfterFailure(*record, world_->mutable_payloads()))
          never_came[rank->rank()] += bytes;
        link.Consume();
      }
      if (!MayReact(*rank))
        continue;
      any = true;
      QuietWatch& watch = quiet.try_emplace(rank->rank(), &threads_).first->second;
      const milliseconds since = watch.Look(QuietWatch::Clock::now(), {&link});
      const auto limit = link.EarliestLimit();
      if (since.count() == 0 || !limit.has_value() ||
          since < QuietWatch::PatienceFor(limit->ns - link.host_now_ns()))
        continue;
      LogLimit(rank->rank(), *limit, ScheduleRule::kFailure);
      link.GrantLimit(*limit);
      watch.Moved();
    }
    if (!any)
      break;
  }
  // How they ended may be behind their connections, on a machine under load by more
  // than half a second.
  const auto is_known = [this](int32_t rank) { return exits_.count(rank) != 0; };
  while (QuietWatch::Clock::now() < end &&
         !std::all_of(others.begin(), others.end(), is_known))
    if (!PollEvents(Milliseconds(schedule::kFailureLook)).ok())
      return;
  std::string text = fmt::format("{}\n  then {}", std::string(status->message()),
                                 HowOthersEnded(others));
  std::vector<int32_t> not_begun;
  for (const auto& rank : world_->real())
    if (!is_known(rank->rank()) && rank->link().owner_pid() == 0)
      not_begun.push_back(rank->rank());
  if (!not_begun.empty())
    text += fmt::format("\n  rank{} {} had not begun to use the GPU, and {} ended",
                        not_begun.size() == 1 ? "" : "s", FormatRanks(not_begun),
                        not_begun.size() == 1 ? "was" : "were");
  for (const auto& [rank, bytes] : never_came)
    text += fmt::format(
        "\n  rank {} copied {} bytes of results that never came to the host: they are "
        "zeros",
        rank, bytes);
  *status = absl::Status(status->code(), text);
}

}  // namespace vrank::emulator
