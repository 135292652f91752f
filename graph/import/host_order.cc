#include "graph/import/host_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "graph/import/launch_queue.h"

namespace vrank::graph {
namespace {

bool EndsWith(const std::string& text, const char* end, size_t length) {
  return text.size() >= length && text.compare(text.size() - length, length, end) == 0;
}
template <size_t N>
bool EndsWith(const std::string& text, const char (&end)[N]) {
  return EndsWith(text, end, N - 1);
}

bool IsEventRecord(const std::string& name) {
  return name.find("EventRecord") != std::string::npos;
}
bool IsStreamWaitEvent(const std::string& name) {
  return name.find("StreamWaitEvent") != std::string::npos;
}
bool IsLaunch(const std::string& name) {
  return name.find("Launch") != std::string::npos ||
         name.find("MemcpyAsync") != std::string::npos ||
         name.find("MemsetAsync") != std::string::npos;
}

// What is decided about a call name once.
struct CallNature {
  bool host_wait, record, stream_wait, launch;
};

class Orderer {
 public:
  Orderer(const Recording& recording, ImportLosses* losses)
      : recording_(recording), losses_(losses) {}

  HostOrder Run() {
    FindWindow();
    LookAtNames();
    JoinLaunches();
    FindHelpers();
    FindMainThread();
    FindLatencies();
    full_queue_ = FindFullQueue(recording_, order_.call_of);
    Count(ImportLoss::kFullQueue, static_cast<uint64_t>(std::count(
                                      full_queue_.begin(), full_queue_.end(), true)));
    AddCalls();
    AddWorks();
    AddRanges();
    FindHostEnd();
    std::stable_sort(order_.points.begin(), order_.points.end(),
                     [](const Point& a, const Point& b) {
                       if (a.at_ns != b.at_ns)
                         return a.at_ns < b.at_ns;
                       if (a.kind != b.kind)
                         return a.kind < b.kind;
                       // Rows of ranges: outer before inner.
                       return a.kind == PointKind::kRangeEnd && a.row > b.row;
                     });
    return std::move(order_);
  }

 private:
  void Count(ImportLoss loss, uint64_t count = 1) {
    if (count != 0)
      (*losses_)[loss] += count;
  }

  void FindWindow() {
    Span& window = order_.window;
    window = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    const auto include = [&window](const auto& rows) {
      for (const auto& row : rows) {
        window.begin_ns = std::min(window.begin_ns, row.time.begin_ns);
        window.end_ns = std::max(window.end_ns, row.time.end_ns);
      }
    };
    include(recording_.calls);
    include(recording_.works);
    if (window.begin_ns > window.end_ns)
      window = {};
  }

  void LookAtNames() {
    natures_.resize(recording_.names.size());
    std::vector<bool> seen(recording_.names.size());
    for (const HostCall& call : recording_.calls) {
      if (seen[call.name])
        continue;
      seen[call.name] = true;
      const std::string& name = recording_.names[call.name];
      natures_[call.name] = {
          IsDeviceWait(name) || IsStreamWait(name) || IsEventWait(name) || IsFree(name),
          IsEventRecord(name), IsStreamWaitEvent(name), IsLaunch(name)};
    }
  }

  void JoinLaunches() {
    std::unordered_map<int64_t, uint32_t> by_correlation;
    by_correlation.reserve(recording_.calls.size());
    for (uint32_t i = 0; i < recording_.calls.size(); ++i)
      if (recording_.calls[i].correlation != kNoCorrelation)
        by_correlation.emplace(recording_.calls[i].correlation, i);
    order_.call_of.assign(recording_.works.size(), kNoRow);
    uint64_t missing = 0;
    for (uint32_t i = 0; i < recording_.works.size(); ++i) {
      const auto found = by_correlation.find(recording_.works[i].correlation);
      if (found == by_correlation.end()) {
        ++missing;
        continue;
      }
      order_.call_of[i] = found->second;
    }
    GroupWorks();
    Count(ImportLoss::kWorkWithoutLaunch, missing);
    uint64_t empty = 0;
    for (uint32_t i = 0; i < recording_.calls.size(); ++i)
      empty += natures_[recording_.calls[i].name].launch && WorksOf(i).empty() ? 1 : 0;
    Count(ImportLoss::kLaunchWithoutWork, empty);
  }

  void GroupWorks() {
    works_begin_.assign(recording_.calls.size() + 1, 0);
    for (const uint32_t call : order_.call_of)
      if (call != kNoRow)
        ++works_begin_[call + 1];
    std::partial_sum(works_begin_.begin(), works_begin_.end(), works_begin_.begin());
    works_.resize(works_begin_.back());
    std::vector<uint32_t> place = works_begin_;
    for (uint32_t i = 0; i < order_.call_of.size(); ++i)
      if (const uint32_t call = order_.call_of[i]; call != kNoRow)
        works_[place[call]++] = i;
  }
  std::span<const uint32_t> WorksOf(uint32_t call) const {
    return std::span(works_).subspan(works_begin_[call],
                                     works_begin_[call + 1] - works_begin_[call]);
  }

  void FindHelpers() {
    order_.helper_threads.assign(recording_.threads.size(), true);
    for (uint32_t i = 0; i < recording_.calls.size(); ++i) {
      const HostCall& call = recording_.calls[i];
      const CallNature& nature = natures_[call.name];
      if (!WorksOf(i).empty() || nature.stream_wait || nature.host_wait)
        order_.helper_threads[call.thread] = false;
    }
    uint64_t left_out = 0;
    for (const HostCall& call : recording_.calls)
      left_out += order_.helper_threads[call.thread] ? 1 : 0;
    Count(ImportLoss::kHelperCalls, left_out);
  }

  // Where the profiler's steps are; else the thread of the first call.
  void FindMainThread() {
    if (!recording_.calls.empty())
      order_.main_thread = recording_.calls.front().thread;
    for (const HostCall& call : recording_.calls) {
      if (!order_.helper_threads[call.thread]) {
        order_.main_thread = call.thread;
        break;
      }
    }
    for (const HostActivity& activity : recording_.activities) {
      if (activity.is_range &&
          recording_.names[activity.name].rfind(kProfilerStep, 0) == 0) {
        order_.main_thread = activity.thread;
        return;
      }
    }
  }

  void FindLatencies() {
    std::vector<int64_t> stream_end(recording_.streams.size(),
                                    std::numeric_limits<int64_t>::min());
    std::vector<int64_t> idle;
    int64_t shortest = std::numeric_limits<int64_t>::max();
    for (uint32_t i = 0; i < recording_.works.size(); ++i) {
      const DeviceWork& work = recording_.works[i];
      if (order_.call_of[i] != kNoRow) {
        const int64_t issued = recording_.calls[order_.call_of[i]].time.begin_ns;
        shortest = std::min(shortest, work.time.begin_ns - issued);
        if (stream_end[work.stream] <= issued)
          idle.push_back(work.time.begin_ns - issued);
      }
      stream_end[work.stream] = std::max(stream_end[work.stream], work.time.end_ns);
    }
    // 5 to 14 us wherever a stream was idle; beyond is a queue, or clocks that differ.
    constexpr int64_t kMost = 20'000;
    constexpr int64_t kNoneSeen = 1'000;  // a recording without any launch
    order_.shortest_latency_ns = shortest == std::numeric_limits<int64_t>::max()
                                     ? kNoneSeen
                                     : std::clamp<int64_t>(shortest, 1, kMost);
    order_.typical_latency_ns = order_.shortest_latency_ns;
    if (!idle.empty()) {
      const auto middle = idle.begin() + static_cast<std::ptrdiff_t>(idle.size() / 2);
      std::nth_element(idle.begin(), middle, idle.end());
      order_.typical_latency_ns = std::max(order_.shortest_latency_ns, *middle);
    }
  }

  void AddCalls() {
    int64_t waits_until = std::numeric_limits<int64_t>::min();
    uint32_t waiting = kNoRow;
    uint64_t overlapping = 0;
    for (uint32_t i = 0; i < recording_.calls.size(); ++i) {
      const HostCall& call = recording_.calls[i];
      if (order_.helper_threads[call.thread])
        continue;
      overlapping += call.time.begin_ns < waits_until && call.thread != waiting ? 1 : 0;
      const CallNature& nature = natures_[call.name];
      if (nature.record)
        Add(call.time.begin_ns, PointKind::kRecord, i, call.thread);
      if (nature.stream_wait)
        Add(call.time.begin_ns, PointKind::kStreamWait, i, call.thread);
      if (nature.host_wait || WaitsForItsCopy(i) || full_queue_[i]) {
        Add(call.time.end_ns, PointKind::kHostWait, i, call.thread);
        if (call.time.end_ns > waits_until) {
          waits_until = call.time.end_ns;
          waiting = call.thread;
        }
      }
    }
    Count(ImportLoss::kOverlappingThreads, overlapping);
  }

  // A copy that had ended when its call returned: one to or from pageable memory, or a
  // synchronous one.
  bool WaitsForItsCopy(uint32_t call) const {
    const std::span<const uint32_t> works = WorksOf(call);
    return std::any_of(works.begin(), works.end(), [&](uint32_t i) {
      return recording_.works[i].work == WorkClass::kCopy &&
             recording_.works[i].time.end_ns <= recording_.calls[call].time.end_ns;
    });
  }

  // Work is issued at its launch, and never after what follows it on its stream.
  void AddWorks() {
    std::vector<int64_t> next(recording_.streams.size(),
                              std::numeric_limits<int64_t>::max());
    for (uint32_t i = static_cast<uint32_t>(recording_.works.size()); i-- > 0;) {
      const DeviceWork& work = recording_.works[i];
      const uint32_t call = order_.call_of[i];
      int64_t at = call == kNoRow ? work.time.begin_ns - order_.shortest_latency_ns
                                  : recording_.calls[call].time.begin_ns;
      at = next[work.stream] = std::min(at, next[work.stream]);
      const bool known = call != kNoRow;
      pending_.push_back(
          {at, PointKind::kWork, i, known ? recording_.calls[call].thread : kNoRow});
    }
    order_.points.insert(order_.points.end(), pending_.rbegin(), pending_.rend());
  }

  void AddRanges() {
    for (uint32_t i = 0; i < recording_.activities.size(); ++i) {
      const HostActivity& activity = recording_.activities[i];
      if (!activity.is_range || activity.thread != order_.main_thread ||
          activity.time.begin_ns == activity.time.end_ns)
        continue;
      Add(activity.time.begin_ns, PointKind::kRangeBegin, i, activity.thread);
      Add(activity.time.end_ns, PointKind::kRangeEnd, i, activity.thread);
      order_.window.begin_ns = std::min(order_.window.begin_ns, activity.time.begin_ns);
      order_.window.end_ns = std::max(order_.window.end_ns, activity.time.end_ns);
    }
  }

  // Work that outlasts the host is no time of the host.
  void FindHostEnd() {
    order_.host_end_ns = order_.window.begin_ns;
    for (const HostCall& call : recording_.calls)
      if (!order_.helper_threads[call.thread])
        order_.host_end_ns = std::max(order_.host_end_ns, call.time.end_ns);
    for (const Point& point : order_.points)
      if (point.kind == PointKind::kRangeEnd)
        order_.host_end_ns = std::max(order_.host_end_ns, point.at_ns);
  }

  void Add(int64_t at_ns, PointKind kind, uint32_t row, uint32_t thread) {
    order_.points.push_back({at_ns, kind, row, thread});
  }

  const Recording& recording_;
  ImportLosses* const losses_;
  HostOrder order_;
  std::vector<CallNature> natures_;  // by name
  // Works by call: those of call i are at works_begin_[i] to works_begin_[i + 1].
  std::vector<uint32_t> works_, works_begin_;
  std::vector<bool> full_queue_;  // by call: it waited for a place
  std::vector<Point> pending_;
};

}  // namespace

bool IsDeviceWait(const std::string& name) {
  return EndsWith(name, "DeviceSynchronize") || EndsWith(name, "CtxSynchronize");
}
bool IsStreamWait(const std::string& name) {
  return name.find("StreamSynchronize") != std::string::npos;
}
bool IsEventWait(const std::string& name) {
  return EndsWith(name, "EventSynchronize");
}
bool IsFree(const std::string& name) {
  return name == "cudaFree" || name == "cudaFreeHost" || name == "hipFree" ||
         name == "hipHostFree" || name == "cuMemFree_v2";
}

HostOrder OrderHost(const Recording& recording, ImportLosses* losses) {
  return Orderer(recording, losses).Run();
}

}  // namespace vrank::graph
