// The order of work on one pipeline rank: 1F1B, interleaved where a rank holds several
// chunks of layers.
//
// "One forward, one backward" (PipeDream-Flush; Narayanan et al. 2021, "Efficient
// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2):
// a rank runs forwards until the pipeline below it is full, then alternates, then
// drains. With one chunk at most `ranks - rank` micro-batches are in flight.
//
// With several chunks ("virtual stages"), stage c * ranks + r of the model is chunk c
// of rank r: the last rank hands its output to the first one's next chunk. Each rank
// takes `ranks` micro-batches through chunk 0, then the same ones through chunk 1, and
// so on. The pipeline fills in 1 / chunks of the time and sends `chunks` times as much.
//
// Sends and receives that lie between the same two pieces of work form one exchange:
// apart, two neighbours that both send first would wait for each other.
//
// Pure: no device.

#ifndef EXAMPLES_GPT_TRAINER_PIPELINE_SCHEDULE_H_
#define EXAMPLES_GPT_TRAINER_PIPELINE_SCHEDULE_H_

#include <vector>

namespace gpt {

struct PipelineStep {
  enum class Kind { kForward, kBackward, kExchange };

  // A micro-batch in a chunk of this rank.
  struct Work {
    int micro_batch = -1;  // -1: none
    int chunk = 0;

    bool exists() const { return micro_batch >= 0; }
    friend bool operator==(const Work&, const Work&) = default;
  };

  Kind kind;
  Work work;  // kForward, kBackward
  // kExchange: whose activation goes to the next rank and comes from the previous one,
  // whose gradient goes to the previous rank and comes from the next one. What is
  // received is named by the work of this rank that needs it.
  Work send_forward, receive_forward, send_backward, receive_backward;
};

// REQUIRES: chunks == 1, or ranks > 1 and micro_batches % ranks == 0.
std::vector<PipelineStep> MakePipelineSchedule(int rank, int ranks, int chunks,
                                               int micro_batches);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_PIPELINE_SCHEDULE_H_
