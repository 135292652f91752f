#include "emulator/payload/operation.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "emulator/payload/element.h"

namespace vrank::emulator {

using graph::CollectiveCall;
using graph::CollectiveKind;
using graph::HasRoot;
using graph::Reduces;
using graph::Reduction;
using protocol::PayloadState;

namespace {

// Only the root puts something in.
bool OnlyRootContributes(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kScatter;
}

}  // namespace

std::optional<CallBytes> BytesOf(const CollectiveCall& call, uint64_t members,
                                 uint32_t index) {
  const uint64_t element = graph::ElementBytes(call.type);
  if (element == 0 || members == 0 ||
      call.count > std::numeric_limits<uint64_t>::max() / element / members)
    return std::nullopt;
  if (HasRoot(call.operation) && call.root >= members)
    return std::nullopt;
  const uint64_t chunk = call.count * element;
  const uint64_t all = chunk * members;
  const bool root = index == call.root;
  switch (call.operation) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
      return CallBytes{chunk, chunk, chunk};
    case CollectiveKind::kAllGather:
      return CallBytes{chunk, chunk, all};
    case CollectiveKind::kReduceScatter:
      return CallBytes{chunk, all, chunk};
    case CollectiveKind::kReduce:
      return CallBytes{chunk, chunk, root ? chunk : 0};
    case CollectiveKind::kAllToAll:
      return CallBytes{chunk, all, all};
    case CollectiveKind::kGather:
      return CallBytes{chunk, chunk, root ? all : 0};
    case CollectiveKind::kScatter:
      return CallBytes{chunk, root ? all : chunk, chunk};
  }
  return std::nullopt;
}

Operation::Operation(std::vector<uint32_t> real, uint32_t members)
    : real_(std::move(real)), members_(members), contributions_(real_.size()) {}

bool Operation::IsReal(uint32_t member) const {
  return std::binary_search(real_.begin(), real_.end(), member);
}

size_t Operation::SlotOf(uint32_t member) const {
  return static_cast<size_t>(std::lower_bound(real_.begin(), real_.end(), member) -
                             real_.begin());
}

uint32_t Operation::NearestReal(uint32_t member) const {
  const auto above = std::upper_bound(real_.begin(), real_.end(), member);
  return above == real_.begin() ? real_.back() : *(above - 1);
}

bool Operation::Counts(uint32_t member) const {
  return !OnlyRootContributes(call_->operation) || !IsReal(call_->root) ||
         member == call_->root;
}

namespace {

bool IsReady(const Operation::Contribution& contribution) {
  return contribution.closed && !contribution.content.has_derived();
}

}  // namespace

bool Operation::OneSuffices() const {
  return call_.has_value() && OnlyRootContributes(call_->operation);
}

bool Operation::ReadyFor(uint32_t member) const {
  if (!call_.has_value())
    return false;
  if (OneSuffices())
    return IsReady(contributions_[SlotOf(IsReal(call_->root) ? call_->root : member)]);
  return AllReady();
}

bool Operation::AllReady() const {
  return std::all_of(contributions_.begin(), contributions_.end(), IsReady);
}

bool Operation::AllComputed() const {
  return std::all_of(contributions_.begin(), contributions_.end(),
                     [](const Contribution& c) {
                       return c.content.known_bytes() == 0 && !c.content.has_derived();
                     });
}

uint64_t Operation::known_bytes() const {
  uint64_t bytes = 0;
  for (const Contribution& contribution : contributions_)
    bytes += contribution.content.known_bytes();
  return bytes + (folded_.has_value() ? folded_->known_bytes() : 0);
}

void Operation::Fold() {
  constexpr uint64_t kStep = uint64_t{1} << 20;
  if (folded_.has_value() || contributions_.size() < 2 || !Reduces(call_->operation))
    return;
  const uint64_t end = BytesOf(*call_, members_, real_.front())->contribution;
  Content result;
  std::vector<std::byte> values;
  for (uint64_t at = 0; at < end;) {
    const Content::Stretch stretch =
        ReduceContributions(at, std::min(end - at, kStep), &values);
    // Stretches follow each other: neither call can fail.
    if (stretch.state == PayloadState::kKnown)
      (void)result.AddKnown(at, values, stretch.mirrored);
    else
      (void)result.AddComputed(at, stretch.bytes);
    at += stretch.bytes;
  }
  for (Contribution& contribution : contributions_)
    contribution.content = Content();
  folded_ = std::move(result);
}

Operation::Origin Operation::OriginOf(uint32_t member, uint64_t offset) const {
  const uint64_t chunk = call_->count * graph::ElementBytes(call_->type);
  const uint64_t inside = offset % chunk;
  uint32_t source = call_->root;
  uint32_t mirrored_by = member;
  uint64_t from = inside;
  switch (call_->operation) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
      source = static_cast<uint32_t>(offset / chunk);
      mirrored_by = NearestReal(source);
      break;
    case CollectiveKind::kAllToAll:
      source = static_cast<uint32_t>(offset / chunk);
      from += chunk * member;
      break;
    case CollectiveKind::kScatter:
      // A member in the root's place has its own part only.
      from += IsReal(source) ? chunk * member : 0;
      break;
    default:  // broadcast
      break;
  }
  const bool real = IsReal(source);
  return Origin{SlotOf(real ? source : mirrored_by), from, chunk - inside, !real};
}

Content::Stretch Operation::Result(uint32_t member, uint64_t offset, uint64_t limit,
                                   std::vector<std::byte>* out) const {
  if (Reduces(call_->operation)) {
    const uint64_t chunk = call_->count * graph::ElementBytes(call_->type);
    const bool scatters = call_->operation == CollectiveKind::kReduceScatter;
    return Reduced((scatters ? chunk * member : 0) + offset, limit, out);
  }
  const Origin origin = OriginOf(member, offset);
  if (origin.mirrored && policy_ == PayloadPolicy::kExact)
    return Content::Stretch{PayloadState::kComputed, std::min(limit, origin.bytes)};
  if (origin.mirrored && policy_ == PayloadPolicy::kZero) {
    out->assign(std::min(limit, origin.bytes), std::byte{0});
    return Content::Stretch{PayloadState::kKnown, out->size(), nullptr, true};
  }
  Content::Stretch stretch = contributions_[origin.slot].content.At(
      origin.offset, std::min(limit, origin.bytes));
  if (stretch.state == PayloadState::kKnown)
    out->assign(stretch.data, stretch.data + stretch.bytes);
  stretch.data = nullptr;
  stretch.mirrored |= origin.mirrored;
  return stretch;
}

Content::Stretch Operation::Received(uint64_t offset, uint64_t limit,
                                     std::vector<std::byte>* out) const {
  Content::Stretch stretch = contributions_[0].content.At(offset, limit);
  if (stretch.state == PayloadState::kKnown)
    out->assign(stretch.data, stretch.data + stretch.bytes);
  stretch.data = nullptr;
  return stretch;
}

Content::Stretch Operation::Reduced(uint64_t offset, uint64_t limit,
                                    std::vector<std::byte>* out) const {
  if (!folded_.has_value())
    return ReduceContributions(offset, limit, out);
  Content::Stretch stretch = folded_->At(offset, limit);
  if (stretch.state == PayloadState::kKnown)
    out->assign(stretch.data, stretch.data + stretch.bytes);
  stretch.data = nullptr;
  return stretch;
}

Content::Stretch Operation::ReduceContributions(uint64_t offset, uint64_t limit,
                                                std::vector<std::byte>* out) const {
  const uint64_t element = graph::ElementBytes(call_->type);
  // Whole elements that cover the bytes asked for.
  const uint64_t skip = offset % element;
  const uint64_t begin = offset - skip;
  uint64_t known = (skip + limit + element - 1) / element * element;
  uint64_t computed = 0;
  bool mirrored = real_.size() < members_;
  if (mirrored && policy_ == PayloadPolicy::kExact)
    return Content::Stretch{PayloadState::kComputed, limit};
  std::vector<const std::byte*> inputs;
  for (const Contribution& contribution : contributions_) {
    const Content::Stretch stretch =
        contribution.content.At(begin, std::max(known, computed));
    if (stretch.state == PayloadState::kKnown) {
      known = std::min(known, stretch.bytes / element * element);
      inputs.push_back(stretch.data);
      mirrored |= stretch.mirrored;
    } else {
      known = 0;
      computed = std::max(computed, stretch.bytes);
    }
  }
  if (known == 0) {
    computed = (std::max(computed, element) + element - 1) / element * element;
    return Content::Stretch{PayloadState::kComputed, std::min(limit, computed - skip)};
  }
  ReduceKnown(inputs, known, out);
  const uint64_t bytes = std::min(limit, known - skip);
  out->erase(out->begin(), out->begin() + static_cast<ptrdiff_t>(skip));
  out->resize(bytes);
  return Content::Stretch{PayloadState::kKnown, bytes, nullptr, mirrored};
}

void Operation::ReduceKnown(std::span<const std::byte* const> inputs, uint64_t bytes,
                            std::vector<std::byte>* out) const {
  const bool average = call_->reduction == Reduction::kAvg;
  // Zeros add nothing to a sum, but count in an average.
  const bool zeros = policy_ == PayloadPolicy::kZero;
  const uint64_t real = inputs.size();
  const uint64_t averaged = zeros ? members_ : real;
  std::vector<std::byte> next(bytes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    next.assign(inputs[i], inputs[i] + bytes);
    if (average)
      AverageBefore(call_->type, averaged, next);
    if (i == 0)
      out->swap(next);
    else
      Accumulate(call_->type, call_->reduction, *out, next);
  }
  if (average)
    AverageAfter(call_->type, averaged, *out);
  if (real < members_)
    AddVirtual(inputs, bytes, out);
}

// What the members that are not real add to `out`, the result of the real ones.
void Operation::AddVirtual(std::span<const std::byte* const> inputs, uint64_t bytes,
                           std::vector<std::byte>* out) const {
  const uint64_t real = inputs.size();
  const bool zeros = policy_ == PayloadPolicy::kZero;
  switch (call_->reduction) {
    case Reduction::kSum:
    case Reduction::kPreMulSum:
      if (!zeros)
        Scale(call_->type, members_, real, *out);
      return;
    case Reduction::kProd:
      if (zeros)
        break;
      // They repeat the real ones in order; the last round may be a part of one.
      Raise(call_->type, members_ / real, *out);
      for (uint64_t i = 0; i < members_ % real; ++i)
        Accumulate(call_->type, Reduction::kProd, *out, {inputs[i], bytes});
      return;
    case Reduction::kMax:
    case Reduction::kMin:
      if (zeros)
        break;
      return;
    case Reduction::kAvg:
      return;
  }
  Accumulate(call_->type, call_->reduction, *out, std::vector<std::byte>(bytes));
}

}  // namespace vrank::emulator
