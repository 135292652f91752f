// Trains a tiny model on the host backend, all ranks in this process.

#ifndef TESTS_EXAMPLES_GPT_TRAINER_HOST_TRAINING_H_
#define TESTS_EXAMPLES_GPT_TRAINER_HOST_TRAINING_H_

#include <string>
#include <vector>

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/device/host/host_world.h"
#include "examples/gpt_trainer/model_shape.h"
#include "examples/gpt_trainer/trainer.h"

namespace gpt {

// Eight sequences per iteration, whatever the layout. More words are added as they are.
Arguments TinyModel(int tp, int pp, int dp, const std::vector<std::string>& more = {});

struct RankAccount {
  HostCounters counters;       // of the whole run
  HostCounters one_iteration;  // of the last iteration
  AllocatorStatistics memory;
};

struct TrainingRun {
  ModelShape shape;
  std::vector<IterationResult> iterations;  // of rank 0
  std::vector<RankAccount> ranks;

  float loss(int iteration) const { return iterations.at(iteration).loss; }
};

// `job.ranks` is taken from the arguments.
TrainingRun TrainOnHost(const Arguments& arguments, HostJob job = {});

// The largest relative difference of losses and gradient norms; infinite where one of
// them is not finite.
double Difference(const TrainingRun& a, const TrainingRun& b);

}  // namespace gpt

#endif  // TESTS_EXAMPLES_GPT_TRAINER_HOST_TRAINING_H_
