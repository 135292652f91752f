// A run that never was: a few ranks with streams, events and collectives, whose times
// follow from its description by a direct simulation, and the profiles that PyTorch
// would have written of it. What an import makes of the profiles can be held against
// the simulation, also where the description is changed afterwards.
//
// Thread rule: pure functions.

#ifndef VRANK_TESTS_GRAPH_IMPORT_SIMULATED_RUN_H_
#define VRANK_TESTS_GRAPH_IMPORT_SIMULATED_RUN_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace vrank::graph {

struct SimulatedStep {
  enum class Kind : uint8_t {
    kHost,         // the host computes for `ns`
    kKernel,       // of `ns` on `stream`
    kAllReduce,    // of all ranks, `ns` once all are there, on stream kNcclStream
    kStreamWait,   // `stream` waits for an event recorded on `other` now
    kStreamSync,   // the host waits for `stream`
    kDeviceSync,   // ... for all
    kOtherThread,  // the rank's other host thread goes on from here
  };
  Kind kind = Kind::kHost;
  int64_t ns = 0;
  int stream = 0, other = 0;
};

struct SimulatedRun {
  static constexpr int kStreams = 4;
  static constexpr int kNcclStream = 3;
  static constexpr int64_t kLatencyNs = 5'000;

  struct Rank {
    int64_t begin_ns = 0;
    std::vector<SimulatedStep> steps;
  };
  std::vector<Rank> ranks;
};

struct SimulatedTimes {
  struct Work {
    int64_t call_ns = 0, begin_ns = 0, end_ns = 0;
  };
  struct Call {
    int64_t begin_ns = 0, end_ns = 0;
  };
  struct Rank {
    std::vector<Work> works;  // kernels and collectives, in order
    std::vector<Call> calls;  // by step
    int64_t end_ns = 0;       // of the host
  };
  std::vector<Rank> ranks;
};

SimulatedRun RandomRun(std::mt19937* random, int ranks, int steps);
SimulatedTimes Simulate(const SimulatedRun& run);

struct ProfileOptions {
  bool syncs = true;  // with the rows that name streams and events (cuda_sync)
  std::string type = "Float";
  int64_t elements = 1024;
  std::string members;  // more of the file's own: "name": value,
};

// The profile of one rank, as JSON.
std::string ProfileOf(const SimulatedRun& run, const SimulatedTimes& times, int rank,
                      const ProfileOptions& options = {});

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_IMPORT_SIMULATED_RUN_H_
