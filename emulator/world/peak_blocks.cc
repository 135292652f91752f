#include "emulator/world/peak_blocks.h"

#include <algorithm>

namespace vrank::emulator {

using graph::OpKind;
using protocol::BlockChange;

// The op has been appended since.
uint32_t PeakBlocks::LatestName(const graph::Program& program) const {
  if (latest_op_ >= program.size() || latest_op_ < program.Released())
    return 0;
  const graph::Op& op = program.op(latest_op_);
  return op.kind == OpKind::kWork ? op.a : 0;
}

void PeakBlocks::Add(const graph::Program& program,
                     std::span<const protocol::AllocatorBlock> blocks, bool complete) {
  NameLatest(program);
  complete_ &= complete;
  latest_op_ = program.size();
  for (const protocol::AllocatorBlock& block : blocks)
    Change(block, latest_op_);
}

void PeakBlocks::Change(const protocol::AllocatorBlock& block, uint64_t op) {
  Device& device = devices_[block.device];
  if (block.change == BlockChange::kGivenBack) {
    const auto found = device.held.find(block.address);
    if (found == device.held.end()) {
      complete_ = false;
      return;
    }
    device.bytes -= found->second.bytes;
    if (found->second.number <= device.taken_by_peak)
      device.gone.push_back(found->second);
    device.held.erase(found);
    return;
  }
  const bool in_backward = block.change == BlockChange::kTakenInBackward;
  if (in_backward && !in_backward_)
    backward_.emplace_back(op, op);
  if (in_backward)
    backward_.back().second = op;
  in_backward_ = in_backward;
  const Held held{block.bytes, op, ++taken_, 0, in_backward};
  complete_ &= device.held.emplace(block.address, held).second;
  latest_.emplace_back(block.device, block.address);
  device.bytes += block.bytes;
  if (device.bytes < device.peak_bytes)
    return;
  device.peak_bytes = device.bytes;
  device.peak_op = op;
  device.taken_by_peak = taken_;
  device.gone.clear();
}

void PeakBlocks::NameLatest(const graph::Program& program) {
  const uint32_t name = LatestName(program);
  for (const auto& [number, address] : latest_) {
    Device& device = devices_[number];
    if (const auto found = device.held.find(address); found != device.held.end())
      found->second.name = name;
  }
  latest_.clear();
}

std::optional<PeakBlocks::Peak> PeakBlocks::Most(const graph::Program& program) const {
  const auto most = std::max_element(devices_.begin(), devices_.end(),
                                     [](const auto& a, const auto& b) {
                                       return a.second.peak_bytes < b.second.peak_bytes;
                                     });
  if (most == devices_.end() || !complete_)
    return std::nullopt;
  const Device& device = most->second;
  Peak peak{device.peak_bytes, device.peak_op, {}};
  const uint32_t latest_name = LatestName(program);
  const auto add = [&](const Held& held) {
    const uint32_t name = held.op == latest_op_ ? latest_name : held.name;
    peak.blocks.push_back(
        {held.bytes, held.op, program.details().names[name], held.in_backward});
  };
  for (const Held& held : device.gone)
    add(held);
  for (const auto& [address, held] : device.held)
    if (held.number <= device.taken_by_peak)
      add(held);
  return peak;
}

bool PeakBlocks::HasBackward(uint64_t begin, uint64_t end) const {
  // The first that ends at `begin` or later.
  const auto first =
      std::lower_bound(backward_.begin(), backward_.end(), begin,
                       [](const auto& pass, uint64_t op) { return pass.second < op; });
  return first != backward_.end() && first->first < end;
}

}  // namespace vrank::emulator
