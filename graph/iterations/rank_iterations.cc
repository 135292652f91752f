#include "graph/iterations/rank_iterations.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <utility>

namespace vrank::graph {
namespace {

// Actions that are no kernel of a name.
enum FixedAction : uint32_t {
  kMatrixProduct,  // of any shape: libraries choose other kernels for other lengths
  kCopies,
  kMemsets,
  kCallback,
  kWaitOfHost,
  kTransferGroup,
  kFirstCollective,  // and one for each CollectiveKind
};
constexpr uint32_t kFirstKernel = kFirstCollective + 16;
static_assert(static_cast<uint32_t>(CollectiveKind::kGather) < 16 &&
              static_cast<uint32_t>(CollectiveKind::kScatter) < 16 &&
              static_cast<uint32_t>(CollectiveKind::kAllToAll) < 16);

// Parts of names, in lower case. FusedAdamMathFunctor, FusedSgdMathFunctor and
// FusedAdagradMathFunctor are PyTorch's; AdamFunctor, LAMBStage1Functor,
// NovoGradFunctor apex's and Transformer Engine's; kOptimizer32bit2State bitsandbytes'.
constexpr std::string_view kOptimizers[] = {
    "adam",  "sgd",     "adagrad",   "lambstage", "novograd",
    "lamb_", "rmsprop", "adafactor", "optimizer", "amp_update_scale"};
// PyTorch's _foreach_ operators, which optimizers consist of, and the kernels that
// Inductor generates from them (a compiled optimizer). Copies of several tensors (FSDP)
// and gradients set to zero are not updates.
constexpr std::string_view kForeach[] = {"multi_tensor_apply_kernel", "triton_for_"};
constexpr std::string_view kNoUpdates[] = {"copyfunctor", "zerofunctor", "copy<",
                                           "4copyi"};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

bool UpdatesParameters(const std::string& kernel) {
  std::string name = kernel;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const auto is_part = [&](std::string_view part) { return Contains(name, part); };
  if (std::any_of(std::begin(kOptimizers), std::end(kOptimizers), is_part))
    return true;
  return std::any_of(std::begin(kForeach), std::end(kForeach), is_part) &&
         std::none_of(std::begin(kNoUpdates), std::end(kNoUpdates), is_part);
}

uint32_t SteppedOptimizer(std::string_view range) {
  constexpr std::string_view kMark = "vrank::optimizer_step ";
  uint32_t number = 0;
  if (!range.starts_with(kMark))
    return 0;
  range.remove_prefix(kMark.size());
  const auto [end, error] =
      std::from_chars(range.data(), range.data() + range.size(), number);
  return error == std::errc() && end == range.data() + range.size() ? number : 0;
}

uint32_t IterationScan::ActionOf(const Op& op, const Details& details) {
  if (op.from_helper != 0)
    return protocol::kNone;
  switch (op.kind) {
    case OpKind::kWork:
      if (op.work == WorkClass::kCopy)
        return kCopies;
      if (op.work == WorkClass::kMemset)
        return kMemsets;
      if (op.work == WorkClass::kGemm)
        return kMatrixProduct;
      break;
    case OpKind::kHostFunc:
      return kCallback;
    case OpKind::kHostWaitToken:
    case OpKind::kHostWaitLane:
      return kWaitOfHost;
    case OpKind::kTransfers:
      return kTransferGroup;
    case OpKind::kCollective:
      return kFirstCollective +
             static_cast<uint32_t>(details.collectives[op.b].operation);
    default:
      return protocol::kNone;
  }
  const uint32_t name = op.a < details.names.size() ? op.a : 0;
  if (name >= action_of_name_.size()) {
    action_of_name_.resize(name + 1, protocol::kNone);
    updates_.resize(kFirstKernel + name + 1, false);
  }
  if (action_of_name_[name] == protocol::kNone) {
    action_of_name_[name] = kFirstKernel + name;
    updates_[kFirstKernel + name] = UpdatesParameters(details.names[name]);
  }
  return action_of_name_[name];
}

IterationScan::Role IterationScan::AddRange(uint64_t index, const Op& op,
                                            const Details& details) {
  if (op.kind == OpKind::kRangeBegin) {
    const bool begins = !inside_ && matches_ && op.a < details.names.size() &&
                        matches_(details.names[op.a]);
    open_ranges_.push_back({op.a, begins});
    if (!begins) {
      const uint32_t optimizer = annotated() || op.a >= details.names.size()
                                     ? 0
                                     : SteppedOptimizer(details.names[op.a]);
      if (optimizer == 0)
        return Role::kNone;
      steps_[kFirstKernel + op.a] = optimizer;
      return AddAction(index, kFirstKernel + op.a);
    }
    inside_ = true;
    annotated_.push_back({index + 1, index});
    actions_.Clear();
    calls_.Clear();
    return Role::kBound;
  }
  // The innermost open range of that name; a nameless end closes the innermost one.
  const auto range =
      std::find_if(open_ranges_.rbegin(), open_ranges_.rend(),
                   [&](const OpenRange& r) { return op.a == 0 || r.name == op.a; });
  if (range == open_ranges_.rend())
    return Role::kNone;
  const bool ends = range->is_iteration;
  if (ends) {
    inside_ = false;
    annotated_.back().last_op = index;
  }
  open_ranges_.erase(std::next(range).base());
  return ends ? Role::kBound : Role::kNone;
}

IterationScan::Role IterationScan::Add(uint64_t index, const Op& op,
                                       const Details& details) {
  if (op.kind == OpKind::kRangeBegin || op.kind == OpKind::kRangeEnd)
    return AddRange(index, op, details);
  if (annotated())
    return Role::kNone;
  const uint32_t action = ActionOf(op, details);
  if (action == protocol::kNone)
    return Role::kNone;
  if (action == kMatrixProduct || action >= kFirstKernel) {
    computes_ = true;
    calls_.Clear();
  } else if (!computes_ &&
             (op.kind == OpKind::kCollective || op.kind == OpKind::kTransfers)) {
    AddCall(index, op, details);
  }
  return AddAction(index, action);
}

IterationScan::Role IterationScan::AddAction(uint64_t index, uint32_t action) {
  actions_.Append(index - std::exchange(last_op_, index));
  actions_.Append(ZigZag(action, std::exchange(last_action_, action)));
  return Role::kAction;
}

void IterationScan::AddCall(uint64_t index, const Op& op, const Details& details) {
  CommunicationKind kind{.communicator = op.a};
  std::vector<uint64_t> name{static_cast<uint64_t>(op.kind), op.a};
  if (op.kind == OpKind::kCollective) {
    const CollectiveCall& call = details.collectives[op.b];
    kind.reduces = Reduces(call.operation);
    kind.bytes = call.count * ElementBytes(call.type);
    name.insert(name.end(), {static_cast<uint64_t>(call.operation), kind.bytes});
  } else {
    for (const Transfer& transfer : details.transfer_groups[op.b]) {
      kind.bytes += transfer.bytes;
      name.insert(name.end(), {transfer.peer, transfer.bytes});
    }
  }
  const auto [known, is_new] =
      kind_of_.try_emplace(std::move(name), static_cast<uint32_t>(kinds_.size()));
  if (is_new)
    kinds_.push_back(kind);
  calls_.Append(index - std::exchange(last_call_, index));
  calls_.Append(known->second);
}

RankIterations IterationScan::FindByCommunication() const {
  std::vector<uint32_t> calls;
  std::vector<uint64_t> ops;  // of each
  uint64_t op = 0;
  for (VarintSequence::Reader numbers(calls_); !numbers.AtEnd();) {
    ops.push_back(op += numbers.Next());
    calls.push_back(static_cast<uint32_t>(numbers.Next()));
  }
  const FoundIterations found = FindIterationsByCommunication(calls, kinds_);
  RankIterations result{{}, found.evidence, found.regularity};
  for (const ActionSpan& span : found.spans)
    result.bounds.push_back(
        {span.begin == 0 ? ops.front() : ops[span.begin - 1] + 1, ops[span.end - 1]});
  return result;
}

namespace {

// Whether the host waits for the device in each, or a communication says how far the
// device is: else the host may only have issued them, kernels not being observed.
bool EachReachesTheDevice(const std::vector<ActionSpan>& spans,
                          const std::vector<uint32_t>& actions) {
  return std::all_of(spans.begin(), spans.end(), [&](const ActionSpan& span) {
    return std::any_of(actions.begin() + static_cast<ptrdiff_t>(span.begin),
                       actions.begin() + static_cast<ptrdiff_t>(span.end),
                       [](uint32_t action) {
                         return action == kWaitOfHost || action == kTransferGroup ||
                                (action >= kFirstCollective && action < kFirstKernel);
                       });
  });
}

}  // namespace

RankIterations IterationScan::Find(IterationSearch search) const {
  RankIterations result;
  result.bounds = annotated_;
  if (inside_)
    result.bounds.pop_back();
  if (!annotated_.empty() || search == IterationSearch::kAnnotations)
    return result;
  if (search == IterationSearch::kCommunication && steps_.empty())
    return FindByCommunication();
  ActionKinds kinds{updates_, {}, {}, steps_};
  const size_t names = steps_.empty() ? kFirstKernel : steps_.rbegin()->first + 1;
  kinds.updates.resize(std::max(updates_.size(), names), false);
  kinds.computes.resize(kinds.updates.size(), true);
  std::fill_n(kinds.computes.begin(), kFirstKernel, false);
  kinds.computes[kMatrixProduct] = true;
  for (const auto& [action, optimizer] : steps_)
    kinds.computes[action] = false;
  kinds.works = kinds.computes;
  kinds.works[kTransferGroup] = true;
  std::fill_n(kinds.works.begin() + kFirstCollective, kFirstKernel - kFirstCollective,
              true);
  std::vector<uint32_t> actions;
  std::vector<uint64_t> ops;  // of each
  uint64_t op = 0, action = 0;
  for (VarintSequence::Reader numbers(actions_); !numbers.AtEnd();) {
    ops.push_back(op += numbers.Next());
    actions.push_back(
        static_cast<uint32_t>(action = FromZigZag(numbers.Next(), action)));
  }
  const FoundIterations found = FindIterations(actions, kinds);
  if (search == IterationSearch::kCommunication &&
      (found.evidence != IterationEvidence::kOptimizer ||
       !EachReachesTheDevice(found.spans, actions)))
    return FindByCommunication();
  result.evidence = found.evidence;
  result.regularity = found.regularity;
  // Host time between two adjacent iterations (the next batch is read) counts to the
  // later one. Where an evaluation stands between them it counts to neither.
  size_t end = 0;  // of the one before
  for (const ActionSpan& span : found.spans) {
    const bool adjacent = span.begin != 0 && span.begin == end;
    result.bounds.push_back(
        {adjacent ? ops[span.begin - 1] + 1 : ops[span.begin], ops[span.end - 1]});
    end = span.end;
  }
  return result;
}

}  // namespace vrank::graph
