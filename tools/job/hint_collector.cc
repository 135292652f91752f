#include "tools/job/hint_collector.h"

#include <algorithm>
#include <utility>

#include "graph/schema/op.h"

namespace vrank::tools {

void HintCollector::AddRank(int32_t rank, const graph::SeenRank& seen) {
  const graph::Program& program = *seen.program;
  const auto& communicators = seen.communicators;
  uint32_t inits = 0;
  std::map<uint32_t, uint32_t> splits;  // by the rank's number of the parent
  for (uint64_t i = 0; i < seen.end; ++i) {
    const graph::Op& op = program.op(i);
    if (op.kind != graph::OpKind::kCreateCommunicator)
      continue;
    const graph::Creation& call = program.details().creations[op.b];
    const bool is_init = call.parent == 0;
    const auto parent = communicators.find(call.parent);
    if (!is_init && parent == communicators.end())
      continue;
    const uint32_t number = is_init ? inits++ : splits[call.parent]++;
    Found& found = found_[{
        is_init, is_init ? 0 : layout_.Varying(parent->second.members), number}];
    const auto child = communicators.find(op.a);
    if (child == communicators.end()) {
      found.partial |= call.color == protocol::kNoColor;
      continue;
    }
    const graph::DimensionSet dimensions = layout_.Varying(child->second.members);
    found.dimensions.insert(dimensions);
    found.classes.insert(layout_.ClassOf(rank));
    // Where stages are left out, a group is what remains of the layout's.
    const std::vector<int32_t> group = layout_.Group(rank, dimensions);
    found.regular =
        found.regular && std::all_of(child->second.members.begin(),
                                     child->second.members.end(), [&](int32_t member) {
                                       return std::find(group.begin(), group.end(),
                                                        member) != group.end();
                                     });
  }
}

std::vector<graph::GroupHint> HintCollector::Hints() const {
  std::vector<graph::GroupHint> hints;
  for (const auto& [key, found] : found_) {
    if (!found.regular || found.dimensions.size() != 1)
      continue;
    graph::GroupHint hint;
    std::tie(hint.is_init, hint.parent, hint.number) = key;
    hint.dimensions = *found.dimensions.begin();
    if (found.partial)
      hint.classes.assign(found.classes.begin(), found.classes.end());
    hints.push_back(std::move(hint));
  }
  return hints;
}

}  // namespace vrank::tools
