#include "emulator/session/failure_reaction.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "emulator/session/rank_exit.h"
#include "emulator/session/schedule_log.h"
#include "graph/membership/deciding_rank.h"
#include "schedule/policy.h"
#include "schedule/quiet.h"

namespace vrank::emulator {
namespace {

using schedule::Milliseconds;
using std::chrono::milliseconds;

// An error that another rank would decide is none yet: the job starts again.
bool IsOfTheJob(const absl::Status& status) {
  return (absl::IsAborted(status) || absl::IsDeadlineExceeded(status) ||
          absl::IsInvalidArgument(status)) &&
         graph::DecidingRanksOf(status).empty();
}

// A message's first clause: which rank, and what happened to it. Lists in parentheses
// are part of it.
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

// The reason that ranks read: what happened, and the first wait that results from it
// where the message lists some, which names communicator, sequence and call.
std::string ReasonFor(const absl::Status& status) {
  const std::string message(status.message());
  const size_t begin = message.find("\n  ");
  std::string wait;
  if (begin != std::string::npos)
    wait = "; " + message.substr(begin + 3, message.find('\n', begin + 1) - begin - 3);
  return FirstClause(status) + wait;
}

}  // namespace

FailureReaction::FailureReaction(World* world, ThreadWatch* threads,
                                 const RankProcesses* processes,
                                 std::set<int32_t> stuck, milliseconds grace)
    : world_(world),
      threads_(threads),
      processes_(processes),
      stuck_(std::move(stuck)),
      grace_(grace) {
  for (const auto& rank : world_->real())
    if (MayReact(*rank))
      others_.insert(rank->rank());
}

bool FailureReaction::MayReact(const RealRank& rank) const {
  return !processes_->has_exited(rank.rank()) && !stuck_.contains(rank.rank()) &&
         rank.link().connected() && rank.link().owner_pid() != 0;
}

bool FailureReaction::IsDue(const absl::Status& status) const {
  return IsOfTheJob(status) && grace_.count() != 0 && !others_.empty();
}

std::string FailureReaction::Announcement(const absl::Status& status) const {
  return fmt::format(
      "{}; the other ranks are told by NCCL, and have {} s to end (--failure-grace)",
      FirstClause(status), grace_.count() / 1e3);
}

void FailureReaction::Serve(RealRank* rank) {
  GuestLink& link = rank->link();
  while (const protocol::Record* record = link.Next()) {
    if (const uint64_t bytes =
            rank->AnswerAfterFailure(*record, world_->mutable_payloads()))
      never_came_[rank->rank()] += bytes;
    link.Consume();
  }
  if (!MayReact(*rank))
    return;
  QuietWatch& quiet = quiet_.try_emplace(rank->rank(), threads_).first->second;
  const milliseconds since = quiet.Look(Clock::now(), {&link});
  const auto limit = link.EarliestLimit();
  if (since.count() == 0 || !limit.has_value() ||
      since < schedule::PatienceFor(limit->ns - link.host_now_ns()))
    return;
  LogLimit(rank->rank(), *limit, ScheduleRule::kFailure);
  link.GrantLimit(*limit);
  quiet.Moved();
}

absl::Status FailureReaction::ServeAll(const Poll& poll, Clock::time_point end) {
  while (Clock::now() < end) {
    RETURN_IF_ERROR(poll(Milliseconds(schedule::kQuietLook)));
    bool any = false;
    for (const auto& rank : world_->real()) {
      Serve(rank.get());
      any |= MayReact(*rank);
    }
    if (!any)
      break;
  }
  return absl::OkStatus();
}

// Exits may be known later than the ends of connections, on a machine under load by
// more than half a second.
absl::Status FailureReaction::AwaitExits(const Poll& poll,
                                         Clock::time_point end) const {
  const auto has_exited = [this](int32_t rank) { return processes_->has_exited(rank); };
  while (Clock::now() < end && !std::all_of(others_.begin(), others_.end(), has_exited))
    RETURN_IF_ERROR(poll(Milliseconds(schedule::kQuietLook)));
  return absl::OkStatus();
}

std::string FailureReaction::HowOthersEnded() const {
  std::map<std::string, std::vector<int32_t>> ends;
  for (const int32_t rank : others_) {
    const auto exit = processes_->exits().find(rank);
    ends[exit != processes_->exits().end() ? DescribeExit(exit->second) : ""].push_back(
        rank);
  }
  std::string text;
  for (const auto& [how, ranks] : ends) {
    std::string verb =
        how.empty() ? fmt::format("was ended after {} s", grace_.count() / 1e3) : how;
    const bool one = ranks.size() == 1;
    if (!one && verb.starts_with("was "))
      verb.replace(0, 3, "were");
    text += fmt::format("{}rank{} {} {}", text.empty() ? "" : ", ", one ? "" : "s",
                        FormatRanks(ranks), verb);
  }
  return text;
}

std::string FailureReaction::Report() const {
  std::string text = "\n  then " + HowOthersEnded();
  std::vector<int32_t> not_begun;
  for (const auto& rank : world_->real())
    if (!processes_->has_exited(rank->rank()) && rank->link().owner_pid() == 0)
      not_begun.push_back(rank->rank());
  if (!not_begun.empty())
    text += fmt::format("\n  rank{} {} had not begun to use the GPU, and {} ended",
                        not_begun.size() == 1 ? "" : "s", FormatRanks(not_begun),
                        not_begun.size() == 1 ? "was" : "were");
  for (const auto& [rank, bytes] : never_came_)
    text += fmt::format(
        "\n  rank {} copied {} bytes of results that never came to the host: they are "
        "zeros",
        rank, bytes);
  return text;
}

void FailureReaction::Run(const Poll& poll, absl::Status* status) {
  const std::string reason = ReasonFor(*status);
  for (const auto& rank : world_->real())
    rank->link().Fail(reason);
  const auto end = Clock::now() + grace_;
  if (ServeAll(poll, end).ok() && AwaitExits(poll, end).ok())
    *status = absl::Status(status->code(), std::string(status->message()) + Report());
}

}  // namespace vrank::emulator
