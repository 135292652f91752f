#include "graph/iterations/micro_batch.h"

#include <algorithm>
#include <vector>

namespace vrank::graph {
namespace {

using Actions = std::span<const uint32_t>;

// A forward pass has most of its kinds of kernels in this first part of a micro batch:
// what comes first behind it is of a backward pass, or exchanges gradients.
constexpr double kForward = 0.25;

// Minimum share of kernel kinds that two micro batches have in common. The first one
// sets gradients, and the last one exchanges them.
constexpr double kInCommon = 0.5;

// Share of kernel kinds that occur in every micro batch.
constexpr double kMostKernels = 0.9;

bool IsShare(const std::unordered_set<uint32_t>& part,
             const std::unordered_set<uint32_t>& all) {
  return static_cast<double>(part.size()) >=
         kInCommon * static_cast<double>(all.size());
}

}  // namespace

MicroBatch::MicroBatch(Actions reference, const ActionKinds& kinds) : kinds_(kinds) {
  size_t end = reference.size();
  while (end > 0 && kinds.updates[reference[end - 1]])
    --end;
  std::vector<size_t> new_kind;  // where each kind occurs last, from the end
  for (size_t at = end; at-- > 0;) {
    const uint32_t action = reference[at];
    if (kinds.computes[action] && !kinds.updates[action] &&
        kernels_.insert(action).second)
      new_kind.push_back(at);
  }
  size_t begin = end;
  if (!new_kind.empty()) {
    const auto most =
        static_cast<size_t>(kMostKernels * static_cast<double>(new_kind.size() - 1));
    // Where some kinds are much further back, several micro batches are between.
    const size_t all = end - new_kind.back(), one = end - new_kind[most];
    begin = end - all / (all / one);
    // A kind that occurs again in the backward pass begins none: there is one alone.
    if (2 * begin < end - begin)
      begin = 0;
  }
  // Its copies, and waits for them, come first.
  while (begin > 0 && !kinds.works[reference[begin - 1]])
    --begin;
  passes_ = reference.subspan(begin, end - begin);
  const auto forward =
      static_cast<size_t>(kForward * static_cast<double>(passes_.size()));
  backward_ = kernels_;
  for (const uint32_t action : passes_.first(forward))
    backward_.erase(action);
}

bool MicroBatch::IsIn(Actions actions) const {
  std::unordered_set<uint32_t> found, backward;
  for (const uint32_t action : actions) {
    if (kernels_.contains(action))
      found.insert(action);
    if (backward_.contains(action))
      backward.insert(action);
  }
  return !kernels_.empty() && IsShare(found, kernels_) && IsShare(backward, backward_);
}

size_t MicroBatch::BeginOf(const AlignedPlaces& aligned, size_t first) const {
  const size_t skipped = aligned.reference - first;
  return 4 * skipped < 3 * passes_.size()
             ? aligned.segment - std::min(aligned.segment, skipped)
             : aligned.segment;
}

size_t MicroBatch::BeginOfFirst(Actions segment, size_t begin) const {
  size_t earliest = begin;
  while (earliest > 0 && !kinds_.updates[segment[earliest - 1]])
    --earliest;
  while (begin > earliest) {
    // What stands behind a micro batch (norms of gradients) may be as long as it is.
    const size_t length = std::min(begin - earliest, 4 * passes_.size());
    const Actions before = segment.subspan(begin - length, length);
    const auto aligned = FirstAligned(passes_, before, 0);
    if (!aligned || !IsIn(before.subspan(aligned->segment)))
      break;
    begin -= length - BeginOf(*aligned, 0);
  }
  return begin;
}

}  // namespace vrank::graph
