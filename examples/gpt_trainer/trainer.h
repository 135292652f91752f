// Trains: owns all device memory, streams and communicators of a rank, runs iterations.

#ifndef EXAMPLES_GPT_TRAINER_TRAINER_H_
#define EXAMPLES_GPT_TRAINER_TRAINER_H_

#include <memory>
#include <string>
#include <vector>

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/caching_allocator.h"
#include "examples/gpt_trainer/loss_scaler.h"
#include "examples/gpt_trainer/pipeline_link.h"
#include "examples/gpt_trainer/pipeline_schedule.h"
#include "examples/gpt_trainer/stage_model.h"
#include "examples/gpt_trainer/token_data.h"
#include "examples/gpt_trainer/world.h"

namespace gpt {

struct IterationResult {
  float loss = 0.0f;           // mean over all tokens of the iteration
  float gradient_norm = 0.0f;  // before clipping
  bool skipped = false;        // the gradient was not finite, nothing was updated
  float loss_scale = 1.0f;     // with which the gradient was computed
  // Between the moments at which this and the previous iteration's norm was known.
  double device_seconds = 0.0;  // by CUDA events
  double host_seconds = 0.0;    // by the host's clock
};

class Trainer {
 public:
  // Blocks until all ranks have come.
  Trainer(const Arguments& arguments, const World& world, const ModelShape& shape);
  // Waits for the device.
  ~Trainer();

  IterationResult RunIteration(int iteration);

  // This rank's state in a file of the folder. Load returns the iteration to go on
  // with.
  void Save(const std::string& folder, int next_iteration);
  int Load(const std::string& folder);

  // Gradients are those of the last iteration, summed over the ranks that share them,
  // in this rank's shards.
  const ParameterStore& parameters() const { return parameters_; }
  const AllocatorStatistics& memory() const { return allocator_.statistics(); }

 private:
  struct Norm {
    float square_sum;
    float loss;
  };

  void UploadBatch(int iteration);
  void RunPipeline();
  Norm ReduceNorm(int iteration, const Event& known);
  void StateOverflow();
  void Update(float norm);

  Arguments arguments_;
  ModelShape shape_;
  ParallelGroups groups_;
  TokenData data_;
  Stream compute_;
  Stream communication_;
  std::unique_ptr<const Overlap> overlap_;  // where something overlaps
  CachingAllocator allocator_;
  MatrixMultiply multiply_;
  RankContext context_;
  ParameterStore parameters_;
  DeviceArray<int> batch_;    // tokens, then labels
  DeviceArray<Norm> norm_;    // of this rank, then summed over the world
  DeviceArray<float> again_;  // --extra-all-reduce
  PinnedArray<int> host_batch_;
  PinnedArray<Norm> host_norm_;
  GradientReducer reducer_;
  DistributedOptimizer optimizer_;
  StageModel model_;
  LossScaler scaler_;
  PipelineLink link_;
  std::vector<PipelineStep> schedule_;
  int iterations_run_ = 0;         // by this trainer, wherever it began
  std::vector<Event> norm_known_;  // of every other one of these
  double host_time_of_norm_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_TRAINER_H_
