// Runs a job on an engine and lists where it differs from the oracle.

#ifndef VRANK_TESTS_GRAPH_REPLAY_ORACLE_CHECK_H_
#define VRANK_TESTS_GRAPH_REPLAY_ORACLE_CHECK_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/replay/engine.h"
#include "tests/graph/replay/fakes.h"
#include "tests/graph/replay/oracle.h"

namespace vrank::graph {

// What the oracle expects an observer to be told: name -> {time, other time, value}.
struct Expected {
  int64_t ns = 0, other_ns = 0;
  uint64_t value = 0;
  friend bool operator==(const Expected&, const Expected&) = default;
};
std::map<std::string, Expected> ExpectedOf(const Job& job, const NetworkModel& network);

// The first difference, or empty.
std::string Difference(const std::map<std::string, Expected>& expected,
                       const std::map<std::string, RecordingObserver::Told>& told);

inline EngineOptions OptionsOf(const Job& job, uint64_t shuffle_seed = 0) {
  EngineOptions options;
  options.launch_queue_depth = job.launch_queue_depth;
  options.launch_latency = Duration::Nanoseconds(job.latency_ns);
  options.shuffle_seed = shuffle_seed;
  return options;
}

// Details and the first `ops` ops of a program. Queries change the programs that hold
// them, so runs that are compared get copies.
std::unique_ptr<Program> CopyOf(const Program& program, uint64_t ops, bool retain);

template <class AnyEngine>
void AddRanks(const Job& job, AnyEngine& engine, bool real,
              const std::vector<std::unique_ptr<Program>>& programs) {
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    const auto world_rank = static_cast<int32_t>(rank);
    if (job.absent.count(world_rank) != 0) {
      engine.AddAbsentRank(world_rank);
      continue;
    }
    RankOptions options;
    options.real = real;
    options.work_numerator = job.work_scales[rank].first;
    options.work_denominator = job.work_scales[rank].second;
    engine.AddRank(world_rank, programs[rank].get(), options);
  }
}

// Runs to the end, deciding queries; an error, or what blocks.
template <class AnyEngine>
std::string RunToEnd(AnyEngine& engine) {
  do {
    if (const absl::Status status = engine.Run(); !status.ok())
      return status.ToString();
  } while (engine.DecideOldestQuery());
  if (engine.Finished())
    return "";
  std::string text = "not finished:";
  for (const std::string& line : engine.DescribeBlocked(10))
    text += "\n" + line;
  return text;
}

// Plays the job with all ranks real. Empty: as the oracle says.
template <class AnyEngine>
std::string PlayAgainstOracle(const Job& job, uint64_t shuffle_seed = 0) {
  const FakeNetwork network;
  FakeMembership membership(&job);
  RecordingObserver observer;
  AnyEngine engine(OptionsOf(job, shuffle_seed), &network, &membership, &observer);
  AddRanks(job, engine, true, job.programs);
  const std::string trouble = RunToEnd(engine);
  if (!trouble.empty())
    return trouble;
  return Difference(ExpectedOf(job, network), observer.told);
}

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_REPLAY_ORACLE_CHECK_H_
