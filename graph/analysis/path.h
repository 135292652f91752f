// Walks back through a replay: why did this happen when it did?
//
// Every time in a replay is another time plus a cost (step.h). The walk follows that
// chain backwards; what it passes are segments without gaps, so their lengths add up to
// the time that was walked, exactly. Where several causes are equally late the one that
// the engine's ledger follows is taken.
//
//   across ranks   a communication is caused by the member that arrives last, and the
//                  walk goes on there: the critical path of the whole job
//   one rank       a communication is a cause of its own, from the rank's arrival to
//                  its end: what this rank waited for
//
// Thread rule: const.

#ifndef VRANK_GRAPH_ANALYSIS_PATH_H_
#define VRANK_GRAPH_ANALYSIS_PATH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/analysis/timeline.h"

namespace vrank::graph {

enum class PathKind : uint8_t {
  kWork,           // a kernel, copy, callback on a lane
  kCommunication,  // a collective or a transfer, on the wire; on one rank: with
                   // waiting; a kernel that communicates, as long as it was recorded
  kUnexplained,    // a recorded gap on a lane without a known cause
  kHost,           // host time of an op
  kLatency,        // from the host's call to the device
  kPoll,           // found late by a polling host
  kCreation,       // a communicator coming into being
  kBefore,         // before the first op
};

struct PathSegment {
  PathKind kind = PathKind::kHost;
  OpPlace at;
  int64_t begin_ns = 0, end_ns = 0;
  Source source = Source::kModelled;
  int64_t length_ns() const { return end_ns - begin_ns; }
};

// A communication as one rank sees it.
struct Communication {
  OpPlace last;          // who arrives last of those whom the end depends on
  OpPlace other;         // transfers: the other side; collectives: `last`
  int64_t ready_ns = 0;  // when that is, or when a sender's credit comes back
  // It waits for an earlier receive of its channel, which is part of `last`.
  bool after_receive = false;
  uint32_t communicator = 0, receive = 0;  // that receive: where, and its number
  std::pair<uint32_t, uint32_t> channel{0, 0};
  Source source = Source::kModelled;
  bool is_transfer = false, is_send = false;  // of the transfer that ends last
};
// What ended the kCollective or kTransfers at `at`. nullopt: it was an empty group, or
// `at` is a kernel that communicates.
std::optional<Communication> Explain(const Timeline& timeline, const OpPlace& at);

class PathWalk {
 public:
  PathWalk(const Timeline* timeline, bool across_ranks)
      : timeline_(timeline), across_ranks_(across_ranks) {}

  // From when the host had passed an op, or something began or ended on its lane, back
  // to `stop_ns`: latest first; the last segment is cut there.
  std::vector<PathSegment> FromPassed(OpPlace at, int64_t stop_ns) const;
  std::vector<PathSegment> FromBegin(OpPlace at, int64_t stop_ns) const;
  std::vector<PathSegment> FromEnd(OpPlace at, int64_t stop_ns) const;

 private:
  enum class Point : uint8_t { kPassed, kReached, kBegin, kEnd, kNowhere };
  struct State {
    Point point;
    OpPlace at;
    int64_t ns;
  };
  std::vector<PathSegment> Walk(State state, int64_t stop_ns) const;
  State BeforePassed(const State& s, std::vector<PathSegment>& path) const;
  State BeforeCreation(const State& s, std::vector<PathSegment>& path) const;
  State BeforeReached(const State& s, std::vector<PathSegment>& path) const;
  State BeforeBegin(const State& s, std::vector<PathSegment>& path) const;
  State BeforeEnd(const State& s, std::vector<PathSegment>& path) const;
  State BeforeCommunication(const State& s, std::vector<PathSegment>& path) const;
  State EndOf(const State& s, int32_t op) const;

  const Timeline* timeline_;
  bool across_ranks_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_ANALYSIS_PATH_H_
