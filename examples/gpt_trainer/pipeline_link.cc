// A stage's slice of the positions goes to the rank with the same slice: nothing is
// sent twice.

#include "examples/gpt_trainer/pipeline_link.h"

#include <vector>

#include "examples/gpt_trainer/device/profiler_range.h"

namespace gpt {

DeviceArray<Element> PipelineLink::Exchange(int peer, DeviceArray<Element> outgoing,
                                            bool receive) const {
  const ProfilerRange range("pipeline exchange");
  const long long elements = context_.shape.rank_hidden_elements();
  std::vector<Transfer> transfers;
  if (!outgoing.empty()) {
    transfers.push_back(SendTo(peer, outgoing.data(), elements));
  }
  DeviceArray<Element> incoming;
  if (receive) {
    incoming = DeviceArray<Element>(context_.allocator, elements);
    transfers.push_back(ReceiveFrom(peer, incoming.data(), elements));
  }
  context_.groups.pipeline().Exchange(transfers, context_.compute);
  return incoming;
}

}  // namespace gpt
