// Moves activations and their gradients between neighbouring pipeline ranks.

#ifndef EXAMPLES_GPT_TRAINER_PIPELINE_LINK_H_
#define EXAMPLES_GPT_TRAINER_PIPELINE_LINK_H_

#include "examples/gpt_trainer/pipeline_schedule.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

// What lies between two steps of the schedule.
struct PipelineBuffers {
  DeviceArray<Element> input;            // of the next forward
  DeviceArray<Element> output;           // of the last forward
  DeviceArray<Element> output_gradient;  // for the next backward
  DeviceArray<Element> input_gradient;   // of the last backward
};

class PipelineLink {
 public:
  explicit PipelineLink(const RankContext& context) : context_(context) {}

  // Sends and receives what the step names, all at once, on the compute stream, as
  // Megatron-LM's p2p_communication does.
  void Exchange(const PipelineStep& step, PipelineBuffers* buffers) const;

 private:
  const RankContext& context_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_PIPELINE_LINK_H_
