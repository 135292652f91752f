#include "graph/build/device_gaps.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace vrank::graph {
namespace {

// 99 of 100 gaps of an H100 under CUPTI are shorter (docs/validation.md).
constexpr int64_t kLongestGapNs = 4'000;

}  // namespace

std::vector<int64_t> DeviceGaps(const RankTrace& trace) {
  std::vector<int64_t> gaps(trace.work.size(), 0);
  if (trace.session.virtual_gpu) {
    std::transform(
        trace.work.begin(), trace.work.end(), gaps.begin(),
        [&](const TracedWork& work) {
          return work.work == WorkClass::kHostFunc ? 0 : trace.session.kernel_gap_ns;
        });
    return gaps;
  }
  std::unordered_map<uint32_t, int64_t> returned;  // by correlation
  for (const TracedCall& call : trace.calls) {
    int64_t& at = returned.try_emplace(call.correlation, call.end_ns).first->second;
    at = std::max(at, call.end_ns);  // a runtime call and the driver's within it
  }
  std::vector<size_t> order(trace.work.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto place = [&](size_t i) {
    const TracedWork& work = trace.work[i];
    return std::tuple(work.device, work.context, work.stream, work.start_ns, i);
  };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return place(a) < place(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    const TracedWork& before = trace.work[order[i - 1]];
    const TracedWork& work = trace.work[order[i]];
    const bool same_stream = before.device == work.device &&
                             before.context == work.context &&
                             before.stream == work.stream;
    const int64_t gap = work.start_ns - before.end_ns;
    const auto call = returned.find(work.correlation);
    if (same_stream && gap > 0 && gap <= kLongestGapNs && call != returned.end() &&
        call->second <= before.end_ns)
      gaps[order[i]] = gap;
  }
  return gaps;
}

}  // namespace vrank::graph
