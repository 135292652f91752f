#include "emulator/session/hang_watch.h"

#include <utility>

#include <fmt/format.h>

#include "emulator/session/rank_waits.h"
#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

using schedule::Milliseconds;

// The latest call of a rank, in the words of its user.
std::string NameOf(const graph::Op& op, const graph::Details& details) {
  using graph::OpKind;
  switch (op.kind) {
    case OpKind::kCollective:
      return graph::Name(details.collectives[op.b].operation);
    case OpKind::kTransfers:
      return "a send or receive";
    case OpKind::kCreateCommunicator:
      return "the creation of a communicator";
    case OpKind::kReleaseCommunicator:
      return "the end of a communicator";
    case OpKind::kHostWaitToken:
    case OpKind::kHostWaitLane:
      return "a wait for the GPU";
    case OpKind::kQueryToken:
    case OpKind::kQueryLane:
    case OpKind::kPollToken:
    case OpKind::kPollLane:
      return "a question whether the GPU has finished";
    case OpKind::kRecordToken:
    case OpKind::kWaitToken:
      return "an event";
    case OpKind::kMemory:
      return op.value < 0 ? "memory that was given back" : "memory that was taken";
    case OpKind::kWork:
    case OpKind::kHostFunc:
      return "work for the GPU";
    default:
      return "";
  }
}

// Empty: it is too long ago.
std::string LatestCall(const graph::Program& program) {
  constexpr uint64_t kLookBack = 1 << 12;
  for (uint64_t i = program.size();
       i > program.Released() && program.size() - i < kLookBack; --i)
    if (std::string name = NameOf(program.op(i - 1), program.details()); !name.empty())
      return name;
  return "";
}

}  // namespace

HangWatch::HangWatch(std::chrono::milliseconds hang_after, const World* world,
                     const RankProcesses* processes, const Supervisor* supervisor,
                     OnNote on_note)
    : hang_after_(hang_after),
      world_(world),
      processes_(processes),
      supervisor_(supervisor),
      on_note_(std::move(on_note)),
      hang_(hang_after),
      spin_(hang_after) {}

// A rank that only advances its clock appends ops that are no calls: the call of an
// earlier check is still its last one.
std::string HangWatch::SinceLastCall(int32_t rank) const {
  const auto call = last_calls_.find(rank);
  if (call != last_calls_.end())
    return fmt::format("since its last call ({})", call->second);
  return RealRankOf(*world_, rank).program().size() == 0 ? "without a call to its GPU"
                                                         : "since its last call";
}

std::string HangWatch::DescribeSpin(const SpinDetector::Spin& spin) const {
  return fmt::format(
      "rank {} has used {:.1f} s of CPU time {}, and has touched no new memory and no "
      "file meanwhile. If it polls memory that its GPU would write, it waits for ever, "
      "because without a GPU nobody writes there: let it ask instead (cudaEventQuery, "
      "cudaStreamSynchronize). ",
      spin.rank, std::chrono::duration<double>(spin.cpu).count(),
      SinceLastCall(spin.rank));
}

void HangWatch::NoteSpin(const SpinDetector::Spin& spin) const {
  on_note_(fmt::format(
      "{}If it computes, all is well: the run waits for it, for up to "
      "{:.0f} s of this. "
      "`gdb -p {}` shows where it is",
      DescribeSpin(spin), LimitSeconds() * schedule::kSpinLimits, spin.pid));
}

std::string HangWatch::DescribeHang(const HangDetector::Finding& found) const {
  constexpr char kWayOut[] =
      "With --hang-after 0, `gdb -p` (of Python: `py-spy dump --pid`) and its process "
      "id show where it is";
  if (found.kind == HangDetector::Finding::Kind::kSpins)
    return fmt::format(
        "{}{}; --hang-after SECONDS changes the limit ({} times that), 0 switches it "
        "off",
        DescribeSpin(spin_.hanging().at(found.rank)), kWayOut, schedule::kSpinLimits);
  if (found.kind == HangDetector::Finding::Kind::kSleeps) {
    const int64_t clock_ns = RealRankOf(*world_, found.rank).link().host_now_ns();
    return fmt::format(
        "rank {} only sleeps, again and again (a watchdog does, or it looks at "
        "something that vrank does not see: a flag, a file): for {} s it has asked for "
        "nothing {}; by its clock it is {:.1f} s now. {}; --hang-after SECONDS changes "
        "the limit, 0 switches it off",
        found.rank, LimitSeconds(), SinceLastCall(found.rank),
        static_cast<double>(clock_ns) * 1e-9, kWayOut);
  }
  return fmt::format(
      "rank {} has used no CPU for {} s and asks nothing of the emulator: its threads "
      "wait for each other, or for something that vrank does not see (a socket, a "
      "file). {}; --hang-after SECONDS changes the limit, 0 switches it off",
      found.rank, LimitSeconds(), kWayOut);
}

std::vector<SpinDetector::Candidate> HangWatch::RanksOutside() {
  std::vector<SpinDetector::Candidate> ranks;
  for (const auto& rank : world_->real())
    if (!processes_->has_exited(rank->rank()) &&
        (rank->closed() || !rank->link().Blocked())) {
      if (std::string call = rank->closed() ? "" : LatestCall(rank->program());
          !call.empty())
        last_calls_[rank->rank()] = std::move(call);
      ranks.push_back({rank->rank(), processes_->PidsOf(*rank, *supervisor_),
                       rank->link().bytes_written()});
    }
  return ranks;
}

std::optional<std::string> HangWatch::Check() {
  const auto now = HangDetector::Clock::now();
  if (now - last_check_ < Milliseconds(schedule::kHangLook))
    return std::nullopt;
  last_check_ = now;
  std::vector<SpinDetector::Candidate> ranks = RanksOutside();
  const auto spins = spin_.Look(ranks);
  std::vector<HangDetector::Candidate> candidates;
  for (SpinDetector::Candidate& rank : ranks)
    if (!rank.pids.empty())
      candidates.push_back({rank.rank, std::move(rank.pids),
                            spin_.hanging().count(rank.rank) != 0,
                            RealRankOf(*world_, rank.rank).link().host_now_ns()});
  const auto found = hang_.Look(now, candidates);
  if (hang_.any_stopped())
    spin_.Restart();  // others may wait for the stopped one this way
  else if (spins.has_value())
    NoteSpin(*spins);
  if (!found.has_value())
    return std::nullopt;
  if (found->kind == HangDetector::Finding::Kind::kStopped) {
    on_note_(fmt::format(
        "rank {} has been stopped, by a debugger or a signal; the run waits for it",
        found->rank));
    return std::nullopt;
  }
  hung_ = found->rank;
  return DescribeHang(*found);
}

}  // namespace vrank::emulator
