// Keeps what a report needs of everything the engine tells: iterations, collectives,
// communication.
//
// An iteration is an NVTX range of the program whose name matches a pattern; of nested
// matching ranges the outermost counts.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_RESULT_COLLECTOR_H_
#define VRANK_EMULATOR_WORLD_RESULT_COLLECTOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <absl/status/statusor.h>

#include "base/pattern.h"
#include "graph/program/program.h"
#include "graph/replay/stamp.h"
#include "graph/schema/op.h"

namespace vrank::emulator {

// "iteration", "step", "train_step", with or without a number, and what torch.profiler
// calls its steps ("ProfilerStep#7").
inline constexpr char kDefaultIterationRange[] =
    "(iteration|step|train_step)[ _#:-]*[0-9]*|ProfilerStep.*";

// The pattern must match the whole name; case is ignored.
absl::StatusOr<Pattern> MakeIterationPattern(const std::string& pattern);

// By the rank's host. How long an iteration takes is another question
// (emulator/world/iteration_log.h).
struct Iteration {
  graph::Stamp begin, end;
};

// One collective, over all its members.
struct CollectiveRow {
  graph::CollectiveCall call;
  int64_t end_ns = 0;  // of the last member
};

// The end of one member's part; compared between runs by `vrank validate`.
struct MemberEnd {
  uint32_t communicator = 0;  // index into communicators()
  uint32_t member = 0;
  uint32_t peer = protocol::kNone;  // transfers: the other side
  uint32_t is_send = 0;             // transfers
  uint32_t sequence = 0;
  int64_t end_ns = 0;
};

struct CommunicationTotal {
  uint64_t calls = 0;
  uint64_t bytes = 0;
  int64_t time_ns = 0;  // from this rank's arrival to its end, waits for peers included
};

class ResultCollector {
 public:
  struct Options {
    Pattern iteration_pattern;
    bool collectives = false;  // keep a row per collective
    bool member_ends = false;  // keep every end of every member
  };
  explicit ResultCollector(Options options) : options_(std::move(options)) {}

  // The program that the rank's names belong to. `real`: keep its communication totals.
  void AddRank(int32_t rank, const graph::Program* program, bool real);

  void OnRange(int32_t rank, uint32_t name, bool begin, const graph::Stamp& host);
  void OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                       uint32_t member, int32_t rank, const graph::CollectiveCall& call,
                       const graph::Stamp& arrival, const graph::Stamp& end);
  void OnTransferEnd(const std::string& communicator, uint32_t from, uint32_t to,
                     uint32_t sequence, uint64_t bytes, bool is_send, int32_t rank,
                     const graph::Stamp& arrival, const graph::Stamp& end);

  const std::vector<Iteration>& iterations(int32_t rank) const;
  // By operation ("all_reduce", "send", ...). Empty for virtual ranks.
  std::map<std::string, CommunicationTotal> communication(int32_t rank) const;
  // By communicator identity and sequence.
  std::map<std::pair<std::string, uint32_t>, CollectiveRow> Collectives() const;
  // Identities by index, and ends in a fixed order.
  const std::vector<std::string>& communicators() const { return communicators_; }
  const std::vector<MemberEnd>& member_ends() const { return member_ends_; }
  // Iterations that every rank with any iteration has completed.
  size_t CompletedIterations() const;

 private:
  struct OpenRange {
    uint32_t name = 0;
    bool is_iteration = false;
    graph::Stamp begin;
  };
  struct Rank {
    const graph::Program* program = nullptr;
    std::vector<OpenRange> open;
    std::vector<Iteration> iterations;
    bool real = false;
    CommunicationTotal collectives[8];
    CommunicationTotal sends, receives;
  };

  bool IsIteration(const graph::Program* program, uint32_t name);
  uint32_t CommunicatorIndex(const std::string& identity);

  Options options_;
  std::unordered_map<int32_t, Rank> ranks_;
  std::unordered_map<const graph::Program*, std::vector<int8_t>> matches_;
  std::unordered_map<std::string, uint32_t> communicator_index_;
  std::vector<std::string> communicators_;
  std::map<std::pair<uint32_t, uint32_t>, CollectiveRow> rows_;
  std::vector<MemberEnd> member_ends_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_RESULT_COLLECTOR_H_
