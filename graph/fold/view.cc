// See view.h; the rules are those of collective_rendezvous.h.

#include "graph/fold/view.h"

#include <algorithm>
#include <unordered_set>

namespace vrank::graph {

Label LabelOf(const CommunicatorInstance& instance, size_t member,
              const Colouring& colouring) {
  return Label{colouring.colour[instance.members[member]]} << 32 |
         instance.numbers[member];
}

std::vector<Label> LabelsOf(const CommunicatorInstance& instance,
                            const Colouring& colouring) {
  std::vector<Label> labels(instance.members.size());
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i] = LabelOf(instance, i, colouring);
  return labels;
}

namespace {

// Whether a label is new. Mostly there are few, for which looking through them is
// cheapest.
class SeenLabels {
 public:
  bool Add(Label label) {
    if (many_.empty()) {
      if (std::find(few_.begin(), few_.end(), label) != few_.end())
        return false;
      few_.push_back(label);
      if (few_.size() > kFew)
        many_.insert(few_.begin(), few_.end());
      return true;
    }
    if (!many_.insert(label).second)
      return false;
    few_.push_back(label);
    return true;
  }
  // All that were new, in their order.
  std::vector<Label>& order() { return few_; }

 private:
  static constexpr size_t kFew = 32;
  std::vector<Label> few_;
  std::unordered_set<Label> many_;
};

}  // namespace

std::vector<Label> FirstAppearances(const std::vector<Label>& labels, uint32_t start) {
  SeenLabels seen;
  for (size_t place = 0; place < labels.size(); ++place)
    seen.Add(labels[(start + place) % labels.size()]);
  return std::move(seen.order());
}

namespace {

// A member depends on the chain up to the place after its own.
RootedView ChainView(const CollectiveCall& call, const std::vector<Label>& labels) {
  const auto size = static_cast<uint32_t>(labels.size());
  const uint32_t start =
      call.operation == CollectiveKind::kReduce ? (call.root + 1) % size : call.root;
  RootedView view;
  view.views.resize(size);
  std::unordered_set<Label> seen;
  for (uint32_t place = 0; place < size; ++place) {
    const Label label = labels[(start + place) % size];
    if (seen.insert(label).second)
      view.order.push_back(label);
    const auto depends_on = static_cast<uint32_t>(view.order.size());
    if (place > 0)
      view.views[(start + place - 1) % size] = {depends_on, 0};
    if (place + 1 == size)
      view.views[(start + place) % size] = {depends_on, 0};
  }
  return view;
}

// The root depends on all, another member on itself and the root, the lower index
// first.
RootedView HubView(const CollectiveCall& call, const std::vector<Label>& labels) {
  enum : uint32_t { kOneLabel, kBeforeRoot, kAfterRoot, kRoot };
  RootedView view;
  view.order = FirstAppearances(labels);
  const Label root = labels[call.root];
  for (uint32_t i = 0; i < labels.size(); ++i) {
    uint32_t how = i < call.root ? kBeforeRoot : kAfterRoot;
    if (i == call.root && view.order.size() > 1)
      how = kRoot;
    else if (labels[i] == root)
      how = kOneLabel;
    view.views.emplace_back(how, root);
  }
  return view;
}

}  // namespace

RootedView ViewOf(const CollectiveCall& call, const std::vector<Label>& labels) {
  const bool chain = call.operation == CollectiveKind::kBroadcast ||
                     call.operation == CollectiveKind::kReduce;
  return chain ? ChainView(call, labels) : HubView(call, labels);
}

uint32_t PeerOf(const ResolvedJob& job, uint32_t rank, uint32_t number,
                const Transfer& transfer) {
  const auto size = static_cast<uint32_t>(job.InstanceOf(rank, number).members.size());
  return PeerIndex(transfer, job.PeerShift(rank, number), size);
}

}  // namespace vrank::graph
