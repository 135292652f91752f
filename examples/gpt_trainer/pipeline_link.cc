// A rank's slice of the positions goes to the rank with the same slice: nothing is
// sent twice. The ranks form a ring: the last one's next is the first.

#include "examples/gpt_trainer/pipeline_link.h"

#include <vector>

#include "examples/gpt_trainer/device/profiler_range.h"

namespace gpt {

void PipelineLink::Exchange(const PipelineStep& step, PipelineBuffers* buffers) const {
  const ProfilerRange range("pipeline exchange");
  const int ranks = context_.shape.pp;
  const int next = (context_.at.pp + 1) % ranks;
  const int previous = (context_.at.pp + ranks - 1) % ranks;
  const long long elements = context_.shape.rank_hidden_elements();
  std::vector<Transfer> transfers;
  const auto send = [&](int peer, const DeviceArray<Element>& buffer) {
    transfers.push_back(SendTo(peer, buffer.data(), elements));
  };
  const auto receive = [&](int peer, DeviceArray<Element>* buffer) {
    *buffer = DeviceArray<Element>(context_.allocator, elements);
    transfers.push_back(ReceiveFrom(peer, buffer->data(), elements));
  };
  if (step.send_forward.exists()) {
    send(next, buffers->output);
  }
  if (step.send_backward.exists()) {
    send(previous, buffers->input_gradient);
  }
  if (step.receive_forward.exists()) {
    receive(previous, &buffers->input);
  }
  if (step.receive_backward.exists()) {
    receive(next, &buffers->output_gradient);
  }
  context_.groups.pipeline().Exchange(transfers, context_.compute);
  if (step.send_forward.exists()) {
    buffers->output.Reset();
  }
  if (step.send_backward.exists()) {
    buffers->input_gradient.Reset();
  }
}

}  // namespace gpt
