#include "tests/examples/gpt_trainer/host_training.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpt {
namespace {

HostCounters operator-(HostCounters after, const HostCounters& before) {
  after.matrix_flops -= before.matrix_flops;
  for (const auto& [operation, bytes] : before.bytes) {
    after.bytes[operation] -= bytes;
  }
  for (const auto& [communicator, calls] : before.calls) {
    after.calls[communicator] -= calls;
  }
  return after;
}

double RelativeDifference(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) {
    return std::numeric_limits<double>::infinity();
  }
  return std::abs(a - b) / std::max(std::abs(a), 1e-30);
}

}  // namespace

Arguments TinyModel(int tp, int pp, int dp, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"--layers",
                                    "4",
                                    "--hidden",
                                    "32",
                                    "--heads",
                                    "4",
                                    "--sequence",
                                    "16",
                                    "--vocab",
                                    "256",
                                    "--lr",
                                    "3e-3",
                                    "--iterations",
                                    "3",
                                    "--tp",
                                    std::to_string(tp),
                                    "--pp",
                                    std::to_string(pp),
                                    "--dp",
                                    std::to_string(dp),
                                    "--micro-batches",
                                    std::to_string(8 / dp)};
  words.insert(words.end(), more.begin(), more.end());
  return ParseArguments(words);
}

TrainingRun TrainOnHost(const Arguments& arguments, HostJob job) {
  TrainingRun run;
  run.shape = MakeModelShape(arguments, 0, sizeof(Element));
  job.ranks = run.shape.world_size();
  run.ranks.resize(job.ranks);
  RunRanks(job, [&](const World& world) {
    RankAccount& account = run.ranks[world.rank];
    Trainer trainer(arguments, world, run.shape);
    for (int iteration = 0; iteration < arguments.iterations; ++iteration) {
      const HostCounters before = HostRank::Current().counters;
      const IterationResult result = trainer.RunIteration(iteration);
      account.one_iteration = HostRank::Current().counters - before;
      if (world.rank == 0) {
        run.iterations.push_back(result);
      }
    }
    account.counters = HostRank::Current().counters;
    account.memory = trainer.memory();
  });
  return run;
}

double Difference(const TrainingRun& a, const TrainingRun& b) {
  double most = 0.0;
  for (size_t i = 0; i < a.iterations.size(); ++i) {
    most =
        std::max({most, RelativeDifference(a.iterations[i].loss, b.iterations[i].loss),
                  RelativeDifference(a.iterations[i].gradient_norm,
                                     b.iterations[i].gradient_norm)});
  }
  return most;
}

}  // namespace gpt
