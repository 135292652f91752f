// Jobs of a few ranks with everything a program can do, at random.
//
// All ranks issue their parts in one global order and wait only for what was issued
// before, so a job never deadlocks, whatever the seed.

#ifndef VRANK_TESTS_GRAPH_REPLAY_RANDOM_JOB_H_
#define VRANK_TESTS_GRAPH_REPLAY_RANDOM_JOB_H_

#include <cstdint>

#include "tests/graph/replay/oracle.h"

namespace vrank::graph {

struct RandomJobOptions {
  int events = 60;
  bool absent_ranks = true;
};

Job RandomJob(uint64_t seed, const RandomJobOptions& options = {});

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_REPLAY_RANDOM_JOB_H_
