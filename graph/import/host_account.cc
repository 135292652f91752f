#include "graph/import/host_account.h"

#include <algorithm>
#include <utility>

namespace vrank::graph {
namespace {

struct Named {
  Span time;
  uint32_t name;
};

// Recordings are of whole microseconds, or have rounded more precise times.
constexpr int64_t kClockNs = 1'000;

}  // namespace

HostAccount::HostAccount(const Recording& recording)
    : recording_(recording), threads_(recording.threads.size()) {
  std::vector<std::vector<Named>> by_thread(threads_.size());
  for (const HostActivity& row : recording.activities)
    by_thread[row.thread].push_back({row.time, row.name});
  for (const HostCall& row : recording.calls)
    by_thread[row.thread].push_back({row.time, row.name});
  for (size_t thread = 0; thread < threads_.size(); ++thread) {
    std::vector<Named>& rows = by_thread[thread];
    std::stable_sort(rows.begin(), rows.end(), [](const Named& a, const Named& b) {
      return a.time.begin_ns != b.time.begin_ns ? a.time.begin_ns < b.time.begin_ns
                                                : a.time.end_ns > b.time.end_ns;
    });
    std::vector<Segment>& segments = threads_[thread].segments;
    std::vector<const Named*> open;
    const auto close_until = [&](int64_t now) {
      while (!open.empty() && open.back()->time.end_ns <= now) {
        const int64_t end = open.back()->time.end_ns;
        open.pop_back();
        segments.push_back({end, open.empty() ? kNoRow : open.back()->name});
      }
    };
    for (const Named& row : rows) {
      close_until(row.time.begin_ns);
      if (!open.empty() && row.time.end_ns - open.back()->time.end_ns > kClockNs &&
          open.back()->time.end_ns - row.time.begin_ns > kClockNs)
        ++not_nested_;
      segments.push_back({row.time.begin_ns, row.name});
      open.push_back(&row);
    }
    if (!rows.empty())
      close_until(std::max_element(rows.begin(), rows.end(),
                                   [](const Named& a, const Named& b) {
                                     return a.time.end_ns < b.time.end_ns;
                                   })
                      ->time.end_ns);
    // Rows that overlap without nesting close late.
    std::stable_sort(
        segments.begin(), segments.end(),
        [](const Segment& a, const Segment& b) { return a.begin_ns < b.begin_ns; });
  }
}

void HostAccount::Spend(uint32_t thread, int64_t begin_ns, int64_t end_ns) {
  if (end_ns <= begin_ns)
    return;
  Thread& t = threads_[thread];
  const std::vector<Segment>& segments = t.segments;
  while (t.at < segments.size() && segments[t.at].begin_ns <= begin_ns)
    ++t.at;
  int64_t from = begin_ns;
  while (from < end_ns) {
    const int64_t to =
        t.at < segments.size() ? std::min(end_ns, segments[t.at].begin_ns) : end_ns;
    times_[t.at == 0 ? kNoRow : segments[t.at - 1].name] += to - from;
    from = to;
    while (t.at < segments.size() && segments[t.at].begin_ns <= from)
      ++t.at;
  }
}

std::vector<RecordedRank::HostTime> HostAccount::Rows(size_t most) const {
  std::vector<RecordedRank::HostTime> rows;
  for (const auto& [name, ns] : times_)
    rows.push_back(
        {name == kNoRow ? "(nothing recorded)" : recording_.names[name], ns});
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.name < b.name;
  });
  if (rows.size() > most) {
    RecordedRank::HostTime rest{"(others)", 0};
    for (size_t i = most; i < rows.size(); ++i)
      rest.time_ns += rows[i].time_ns;
    rows.resize(most);
    rows.push_back(std::move(rest));
  }
  return rows;
}

}  // namespace vrank::graph
