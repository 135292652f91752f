#include "virtual_gpu/core/query.h"

#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {
namespace {

// A thread that issues no work waits for what it has asked about this often: its clock
// stands, so that asking on would find the same for ever.
constexpr uint32_t kAsksOnAStandingClock = 64;
// Once so many other targets were not ready, the counted one is no longer asked about.
constexpr uint32_t kPollsOfOthers = 1 << 16;

// Time stands still for a thread that issues no work until it waits. One that asks
// again and again instead (PyTorch's watchdog once its group is shut down) waits by
// this for what it asks for: it is found at its end, as by the last of many polls.
Answer AskOnStandingClock(Channel& channel, const EndQuery& query) {
  PollingTurn& turn = ThisThread().turn;
  const int64_t now = channel.Now().nanoseconds();
  if (now != turn.clock_ns || turn.others >= kPollsOfOthers)
    turn = {.clock_ns = now};
  const bool counted = turn.misses > 0 && turn.target == query.target &&
                       turn.generation == query.generation;
  if (counted && turn.misses >= kAsksOnAStandingClock) {
    turn = {};
    protocol::HostWait record{};
    record.record.kind = query.kind == protocol::QueryTarget::kToken
                             ? protocol::RecordKind::kHostWaitToken
                             : protocol::RecordKind::kHostWaitLane;
    record.target = query.target;
    record.slot = protocol::kNoSlot;
    Answer answer = channel.Ask(record);
    answer.complete = ResultOf(channel, answer) == Error::kSuccess;
    return answer;
  }
  const Answer answer = Ask(channel, query);
  if (answer.complete) {
    if (counted)
      turn.misses = 0;
  } else if (counted) {
    ++turn.misses;
  } else if (turn.misses > 0) {
    ++turn.others;
  } else {
    turn.target = query.target;
    turn.generation = query.generation;
    turn.misses = 1;
  }
  return answer;
}

}  // namespace

Answer Ask(Channel& channel, const EndQuery& query) {
  protocol::HostQuery record{};
  record.record.kind = protocol::RecordKind::kHostQuery;
  record.target_kind = query.kind;
  record.target = query.target;
  record.slot = protocol::kNoSlot;
  std::optional<TimePoint> end;
  if (query.end_ns)
    end = TimePoint::FromNanoseconds(*query.end_ns);
  else if (query.kind == protocol::QueryTarget::kToken)
    end = channel.PublishedEnd(query.target, query.generation);
  if (!end)
    return channel.Ask(record);
  Answer answer;
  answer.host = channel.Now();
  answer.end = *end;
  answer.complete = *end <= answer.host;
  record.known_complete = answer.complete ? 1 : 0;
  channel.Emit(record);
  return answer;
}

Answer Poll(Channel& channel, const EndQuery& query) {
  const bool moves_the_clock =
      ThisThread().issues &&
      channel.settings().host_costs_ns[static_cast<size_t>(HostCost::kQuery)] != 0;
  return moves_the_clock ? Ask(channel, query) : AskOnStandingClock(channel, query);
}

Error ResultOf(const Channel& channel, const Answer& answer) {
  return answer.complete || !channel.aborting() ? Error::kSuccess
                                                : Error::kLaunchTimeout;
}

}  // namespace vrank::gpu
