// The order of work on one pipeline stage: 1F1B.
//
// "One forward, one backward" (PipeDream-Flush; Narayanan et al. 2021, "Efficient
// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
// section 2.2.1): a stage runs forwards until the pipeline below it is full, then
// alternates, then drains. At most `stages - stage` micro-batches are in flight. A send
// and the receive of the opposite direction with the same neighbour form one exchange:
// apart, two neighbours that both send first would wait for each other.
//
// Pure: no CUDA, no NCCL.

#ifndef EXAMPLES_GPT_TRAINER_PIPELINE_SCHEDULE_H_
#define EXAMPLES_GPT_TRAINER_PIPELINE_SCHEDULE_H_

#include <vector>

namespace gpt {

struct PipelineStep {
  enum class Kind {
    kForward,
    kBackward,
    kExchangeWithPrevious,  // receives an activation and / or sends a gradient
    kExchangeWithNext,      // sends an activation and / or receives a gradient
  };
  static constexpr int kNone = -1;

  Kind kind;
  int forward = kNone;   // micro-batch whose activation is computed or moved
  int backward = kNone;  // micro-batch whose gradient is computed or moved
};

// Micro-batches that the stage starts before its first backward, besides the one that
// alternates.
int WarmUpMicroBatches(int stage, int stages, int micro_batches);

// Most micro-batches whose activations are alive at once.
int MicroBatchesInFlight(int stage, int stages, int micro_batches);

std::vector<PipelineStep> OneForwardOneBackward(int stage, int stages,
                                                int micro_batches);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_PIPELINE_SCHEDULE_H_
