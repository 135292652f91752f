#include "tools/report/peak_contents.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "graph/models/kernel_costs.h"

namespace vrank::tools {
namespace {

using Part = PeakContents::Part;
using Bounds = std::span<const graph::IterationBounds>;

// The last iteration that begins at or before the op. It includes the ops up to the
// next.
std::optional<size_t> IterationAt(Bounds iterations, uint64_t op) {
  const auto after = std::upper_bound(
      iterations.begin(), iterations.end(), op,
      [](uint64_t wanted, const auto& bounds) { return wanted < bounds.first_op; });
  if (after == iterations.begin())
    return std::nullopt;
  return static_cast<size_t>(after - iterations.begin()) - 1;
}

Part PartOf(const emulator::PeakBlocks::Block& block,
            const emulator::PeakBlocks& blocks, Bounds iterations,
            std::optional<size_t> iteration) {
  if (block.in_backward)
    return Part::kBackward;
  if (!iteration.has_value())
    return Part::kBefore;
  const uint64_t begin = iterations[*iteration].first_op;
  const uint64_t end = *iteration + 1 < iterations.size()
                           ? iterations[*iteration + 1].first_op
                           : UINT64_MAX;
  const bool over =
      !blocks.HasBackward(block.op, end) && blocks.HasBackward(begin, block.op);
  return over ? Part::kUpdate : Part::kForward;
}

void Count(const emulator::PeakBlocks::Block& block, PeakContents::Amount* amount) {
  ++amount->blocks;
  amount->bytes += block.bytes;
}

template <typename Rows>
void SortByBytes(Rows* rows) {
  std::stable_sort(rows->begin(), rows->end(), [](const auto& a, const auto& b) {
    return a.amount.bytes > b.amount.bytes;
  });
}

}  // namespace

std::optional<PeakContents> ContentsOfPeak(const emulator::PeakBlocks& blocks,
                                           const graph::Program& program,
                                           Bounds iterations) {
  const auto peak = blocks.Most(program);
  if (!peak.has_value())
    return std::nullopt;
  PeakContents contents;
  contents.iteration = IterationAt(iterations, peak->op);
  struct Found {
    PeakContents::Amount amount;
    std::map<std::string, PeakContents::Amount> launches;
  };
  std::map<std::pair<Part, bool>, Found> found;
  for (const emulator::PeakBlocks::Block& block : peak->blocks) {
    const auto iteration = IterationAt(iterations, block.op);
    Found& row = found[{PartOf(block, blocks, iterations, iteration),
                        iteration.has_value() && iteration != contents.iteration}];
    Count(block, &contents.all);
    Count(block, &row.amount);
    if (!block.launched.empty())
      Count(block, &row.launches[block.launched]);
  }
  for (const auto& [key, row] : found) {
    contents.rows.push_back({key.first, key.second, row.amount, {}});
    auto& launches = contents.rows.back().launches;
    for (const auto& [name, amount] : row.launches)
      launches.push_back({graph::Demangle(name), amount});
    SortByBytes(&launches);
  }
  SortByBytes(&contents.rows);
  return contents;
}

std::string_view NameOf(Part part) {
  switch (part) {
    case Part::kBefore:
      return "before";
    case Part::kForward:
      return "forward";
    case Part::kBackward:
      return "backward";
    case Part::kUpdate:
      return "update";
  }
  return "";
}

std::string WhenTaken(std::string_view part, bool in_earlier_iteration) {
  const std::string whose = in_earlier_iteration ? " of earlier iterations" : "";
  if (part == NameOf(Part::kBefore))
    return "before the first iteration";
  if (part == NameOf(Part::kForward))
    return "in the forward pass" + whose;
  if (part == NameOf(Part::kBackward))
    return "in the backward pass" + whose;
  if (part == NameOf(Part::kUpdate))
    return "after the backward pass" + whose;
  return std::string(part);
}

}  // namespace vrank::tools
