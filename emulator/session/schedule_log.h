// The schedule log: one line for each wait that expires and each query that is answered
// "not yet" (VRANK_LOG=schedule, --log-schedule FILE):
//
//   VIRTUAL_NS RANK DECISION
//   1234567 0 sleep-ends
//
// Level 2 adds the rule that allowed it. Two equal runs may reach one decision by
// different rules: real time determines which rule applies first.
//
// Thread rule: one thread.

#ifndef VRANK_EMULATOR_SESSION_SCHEDULE_LOG_H_
#define VRANK_EMULATOR_SESSION_SCHEDULE_LOG_H_

#include <cstdint>
#include <string_view>

#include "base/decision_log.h"
#include "emulator/connect/guest_link.h"
#include "emulator/world/world.h"

namespace vrank::emulator {

// What allowed a decision.
enum class ScheduleRule {
  kPast,     // nothing that any rank still does comes before it
  kRest,     // no thread that could come before it runs
  kQuiet,    // nothing has moved for a while
  kStuck,    // every rank waits; without it the job would be stuck
  kFailure,  // a rank has failed, and the others may react
};

inline std::string_view Name(ScheduleRule rule) {
  switch (rule) {
    case ScheduleRule::kPast:
      return "past";
    case ScheduleRule::kRest:
      return "rest";
    case ScheduleRule::kQuiet:
      return "quiet";
    case ScheduleRule::kStuck:
      return "stuck";
    case ScheduleRule::kFailure:
      return "failure";
  }
  return "";
}

inline void LogSchedule(int64_t ns, int32_t rank, std::string_view decision,
                        ScheduleRule rule) {
  if (Logs(LogModule::schedule, 2))
    LOG_DECISION(schedule, 2, "{} {} {} {}", ns, rank, decision, Name(rule));
  else
    LOG_DECISION(schedule, 1, "{} {} {}", ns, rank, decision);
}

// A sleep ends, a wait expires, or a thread's turn passes.
inline void LogLimit(int32_t rank, const GuestLink::Limit& limit, ScheduleRule rule) {
  LogSchedule(limit.ns, rank,
              limit.turn != 0   ? "turn-passes"
              : limit.only_time ? "sleep-ends"
                                : "wait-expires",
              rule);
}

// A query whether work has ended is answered "not yet"; one about the memory of other
// processes is answered.
inline void LogQuery(const schedule::OpenQuery& query, ScheduleRule rule) {
  LogSchedule(query.asked_ns, query.rank,
              query.about_memory ? "memory-told" : "not-yet", rule);
}

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_SCHEDULE_LOG_H_
