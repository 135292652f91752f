#include "emulator/world/allocator_log.h"

#include <algorithm>
#include <iterator>

namespace vrank::emulator {

void AllocatorLog::Add(uint64_t op, uint32_t device, AllocatorBytes peak) {
  std::vector<Point>& points = devices_[device];
  if (points.size() == kMostPoints) {
    for (size_t i = 1; i < points.size(); i += 2)
      points[i / 2] = points[i];
    points.resize(points.size() / 2);
  }
  points.push_back({op, peak});
}

AllocatorBytes AllocatorLog::Before(uint64_t op) const {
  AllocatorBytes most;
  for (const auto& [device, points] : devices_) {
    const auto after = std::lower_bound(
        points.begin(), points.end(), op,
        [](const Point& point, uint64_t wanted) { return point.op < wanted; });
    if (after == points.begin())
      continue;
    const AllocatorBytes& bytes = std::prev(after)->bytes;
    if (bytes.allocated >= most.allocated)
      most = bytes;
  }
  return most;
}

}  // namespace vrank::emulator
