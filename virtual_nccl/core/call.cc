// Sizes and the in-place rule of each operation (NCCL user guide, "Operations").

#include "virtual_nccl/core/call.h"

#include <iterator>

namespace vrank::nccl {
namespace {

using protocol::CollectiveKind;

// In the order of CollectiveKind.
constexpr Shape kShapes[] = {
    // rooted, reduces, root_contributes, root_receives, sends_all, receives_all
    {false, true, false, false, false, false},  // kAllReduce
    {false, false, false, false, false, true},  // kAllGather
    {false, true, false, false, true, false},   // kReduceScatter
    {true, false, true, false, false, false},   // kBroadcast
    {true, true, false, true, false, false},    // kReduce
    {false, false, false, false, true, true},   // kAllToAll
    {true, false, false, true, false, true},    // kGather
    {true, false, true, false, true, false},    // kScatter
};
static_assert(std::size(kShapes) == static_cast<size_t>(CollectiveKind::kScatter) + 1);

}  // namespace

const Shape& ShapeOf(CollectiveKind operation) {
  return kShapes[static_cast<size_t>(operation)];
}

Call::Buffer Call::Contribution() const {
  const Shape& shape = ShapeOf(operation);
  if (shape.root_contributes && communicator->rank != root)
    return {receive, bytes()};
  return {send, shape.sends_all ? bytes() * communicator->ranks : bytes()};
}

uint64_t Call::ResultBytes() const {
  const Shape& shape = ShapeOf(operation);
  if (shape.root_receives && communicator->rank != root)
    return 0;
  return shape.receives_all ? bytes() * communicator->ranks : bytes();
}

bool Call::InPlace() const {
  if (!IsCollective())
    return false;
  const auto from = reinterpret_cast<uintptr_t>(send);
  const auto to = reinterpret_cast<uintptr_t>(receive);
  switch (operation) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return from == to;
    case CollectiveKind::kAllGather:
      return from == to + communicator->rank * bytes();
    case CollectiveKind::kReduceScatter:
      return to == from + communicator->rank * bytes();
    case CollectiveKind::kGather:
      return from == to + root * bytes();
    case CollectiveKind::kScatter:
      return to == from + root * bytes();
    case CollectiveKind::kAllToAll:
      return false;
  }
  return false;
}

}  // namespace vrank::nccl
