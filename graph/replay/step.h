// What an op does to times: all arithmetic on times is here and nowhere else.
//
// An end is a maximum of ends plus a cost (max-plus), so it does not depend on the
// order in which the engine evaluates. The engine takes these rules as a template
// parameter, so that tests can plant mutants, which the oracle of tests/graph/replay
// has to detect.
//
// Every maximum keeps its first argument on a tie: a stamp's ledger is then a function
// of the graph alone. The order of arguments below is therefore part of the rule: own
// lane, then own host, then the communicator, then other members by their place.
//
// Thread rule: stateless.

#ifndef VRANK_GRAPH_REPLAY_STEP_H_
#define VRANK_GRAPH_REPLAY_STEP_H_

#include <cstdint>

#include "graph/replay/jitter.h"
#include "graph/replay/network_model.h"
#include "graph/replay/stamp.h"
#include "graph/schema/op.h"

namespace vrank::graph {

struct Step {
  // a := max(a, b).
  static void Raise(Stamp& a, const Stamp& b) {
    if (b.ns > a.ns)
      a = b;
  }

  // Adds `ns` to a time of a lane or of communication, and to the ledger of `source`;
  // kModelled is what the others leave.
  static void Spend(Stamp& at, int64_t ns, Source source,
                    int64_t Stamp::*assumed = &Stamp::assumed) {
    at.ns += ns;
    if (source == Source::kModelled) [[likely]]
      return;
    (source == Source::kAssumed    ? at.*assumed
     : source == Source::kRecorded ? at.recorded
                                   : at.measured) += ns;
  }
  // The same for a time of the host.
  static void SpendOnHost(Stamp& at, int64_t ns, Source source) {
    Spend(at, ns, source, &Stamp::assumed_host);
  }

  // When what the host issues now can begin on a lane. The launch latency is a
  // magnitude without a source (EngineOptions), so it counts as assumed.
  static Stamp Start(const Stamp& lane, const Stamp& host, int64_t latency_ns) {
    if (host.ns + latency_ns <= lane.ns)
      return lane;
    Stamp start = host;
    SpendOnHost(start, latency_ns, Source::kAssumed);
    return start;
  }

  // Floor of duration * numerator / denominator, without overflow on the way.
  static int64_t Scaled(int64_t duration, int64_t numerator, int64_t denominator) {
    if (numerator == denominator) [[likely]]
      return duration;
    return duration / denominator * numerator +
           duration % denominator * numerator / denominator;
  }

  // A scaled duration with the jitter of the rank's work number `work`.
  static int64_t Jittered(int64_t duration, const Jitter& jitter, uint64_t rank_key,
                          uint64_t work) {
    return Jitter::At(jitter.SpanOf(duration), Jitter::Draw(rank_key, work));
  }

  // `unseen`: what assumed work weighs in the ledger beyond its duration, in ns
  // (OpKind::kWork); it takes no time. Charged to the lane here and to the host in
  // Launched: after a guess that is too short, the critical path may be the host's.
  static Stamp WorkEnd(Stamp start, int64_t duration, Source source, uint32_t unseen) {
    Spend(start, duration, source);
    start.assumed += unseen;
    return start;
  }
  static void Launched(Stamp& host, uint32_t unseen) { host.assumed += unseen; }
  // A callback in stream order: the lane waits for a host thread.
  static Stamp HostFuncEnd(Stamp start, int64_t duration, Source source) {
    SpendOnHost(start, duration, source);
    return start;
  }

  // A token's time when it is recorded on a lane. The lane itself does not move.
  static Stamp TokenEnd(const Stamp& lane, const Stamp& host, int64_t latency_ns) {
    return Start(lane, host, latency_ns);
  }
  static void LaneWait(Stamp& lane, const Stamp& token) { Raise(lane, token); }

  static void HostWait(Stamp& host, const Stamp& end) { Raise(host, end); }
  // The host polls every `cycle` ns, starting now (0: continuously). The delay from
  // `end` to the next poll is a cost of the host.
  static void HostPoll(Stamp& host, const Stamp& end, int64_t cycle, Source source) {
    if (end.ns <= host.ns)
      return;
    const int64_t wait = end.ns - host.ns;
    const int64_t found =
        host.ns + (cycle <= 0 ? wait : (wait + cycle - 1) / cycle * cycle);
    host = end;
    SpendOnHost(host, found - end.ns, source);
  }
  static bool HasEnded(const Stamp& end, const Stamp& host) {
    return end.ns <= host.ns;
  }

  // When a member reaches a collective or a group of transfers. `previous`: the end of
  // its previous operation on that communicator, since NCCL serialises a communicator.
  static Stamp Arrival(const Stamp& lane, const Stamp& host, int64_t latency_ns,
                       const Stamp& previous) {
    Stamp arrival = Start(lane, host, latency_ns);
    Raise(arrival, previous);
    return arrival;
  }
  // `latest`: the maximum of the arrivals that the operation's end depends on.
  static Stamp CommunicationEnd(Stamp latest, const Cost& cost) {
    Spend(latest, cost.duration.nanoseconds(), cost.source);
    return latest;
  }
  // Creating a communicator takes host time. `latest`: the last member's arrival.
  static Stamp CreationEnd(Stamp latest, const Cost& cost) {
    SpendOnHost(latest, cost.duration.nanoseconds(), cost.source);
    return latest;
  }
  // A transfer's end as one side sees it: own part first, then the other side's.
  static Stamp TransferEnd(Stamp own, const Stamp& other, const Cost& cost) {
    Raise(own, other);
    return CommunicationEnd(own, cost);
  }

  // A lower bound of a start behind a lane whose end is not known; `lane`: that of it.
  static int64_t EarliestStart(int64_t lane, const Stamp& host, int64_t latency_ns) {
    return lane > host.ns + latency_ns ? lane : host.ns + latency_ns;
  }
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_STEP_H_
