// Moves activations and their gradients between neighbouring pipeline stages.

#ifndef EXAMPLES_GPT_TRAINER_PIPELINE_LINK_H_
#define EXAMPLES_GPT_TRAINER_PIPELINE_LINK_H_

#include <utility>

#include "examples/gpt_trainer/kernels/kernels.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

class PipelineLink {
 public:
  explicit PipelineLink(const RankContext& context) : context_(context) {}

  // Sends `outgoing` to the previous (next) stage unless it is empty and, if `receive`,
  // returns what comes from there. Both directions go at once, on the
  // compute stream, as in Megatron-LM's send_forward_recv_backward.
  DeviceArray<Element> ExchangeWithPrevious(DeviceArray<Element> outgoing,
                                            bool receive) const {
    return Exchange(context_.at.pp - 1, std::move(outgoing), receive);
  }
  DeviceArray<Element> ExchangeWithNext(DeviceArray<Element> outgoing,
                                        bool receive) const {
    return Exchange(context_.at.pp + 1, std::move(outgoing), receive);
  }

 private:
  DeviceArray<Element> Exchange(int peer, DeviceArray<Element> outgoing,
                                bool receive) const;

  const RankContext& context_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_PIPELINE_LINK_H_
