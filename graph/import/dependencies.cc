#include "graph/import/dependencies.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

namespace vrank::graph {
namespace {

// The profiler's clocks of host and device agree within some microseconds (CUPTI
// interpolates between them), so an end may seem to lie a little after what it allowed.
constexpr int64_t kClockNoiseNs = 3'000;
// A wait that was recorded with its event is believed against a larger difference.
constexpr int64_t kStatedNoiseNs = 50'000;
// Between kernels of a busy stream: 1 to 2 us in every recording looked at.
constexpr int64_t kOrdinaryGapNs = 5'000;
// Waits whose stream is not known are kept for so many others.
constexpr size_t kMostOpenWaits = 64;

class Explainer {
 public:
  Explainer(const Recording& recording, const HostOrder& order, int64_t latency_ns,
            ImportLosses* losses)
      : recording_(recording),
        order_(order),
        latency_ns_(latency_ns),
        losses_(losses),
        last_work_(recording.streams.size(), kNoRow),
        pending_(recording.streams.size()),
        issued_(recording.streams.size()),
        last_stream_(recording.threads.size(), kNoRow),
        recorded_at_(recording.works.size(), kNoRow) {
    found_.works.resize(recording.works.size());
    found_.is_awaited.resize(recording.works.size());
  }

  Dependencies Run() {
    FindNextWork();
    for (uint32_t i = 0; i < order_.points.size(); ++i) {
      const Point& point = order_.points[i];
      switch (point.kind) {
        case PointKind::kRecord:
          RecordEvent(i, point);
          break;
        case PointKind::kStreamWait:
          StreamWait(i, point);
          break;
        case PointKind::kWork:
          Start(point);
          break;
        case PointKind::kHostWait:
          HostWait(i, point);
          break;
        default:
          break;
      }
    }
    for (const OpenWait& wait : open_waits_)
      Drop(wait);
    return std::move(found_);
  }

 private:
  // A stream's wait of which the stream is not known.
  struct OpenWait {
    uint32_t at = 0;            // point
    uint32_t assumed = kNoRow;  // what the work that was issued next waits for
  };

  int64_t EndOf(uint32_t work) const { return found_.works[work].end_ns; }
  void Count(ImportLoss loss) { ++(*losses_)[loss]; }

  // By point: the work that is issued next.
  void FindNextWork() {
    next_work_.resize(order_.points.size());
    uint32_t next = kNoRow;
    for (uint32_t i = static_cast<uint32_t>(order_.points.size()); i-- > 0;) {
      next_work_[i] = next;
      if (order_.points[i].kind == PointKind::kWork &&
          order_.points[i].thread != kNoRow)
        next = order_.points[i].row;
    }
  }

  const SyncRow* StatedBy(const HostCall& call) const {
    const auto found = recording_.syncs.find(call.correlation);
    return found == recording_.syncs.end() ? nullptr : &found->second;
  }
  uint32_t StreamOf(int64_t device, int64_t stream) const {
    const auto found = std::find(recording_.streams.begin(), recording_.streams.end(),
                                 std::pair<int64_t, int64_t>(device, stream));
    return found == recording_.streams.end()
               ? kNoRow
               : static_cast<uint32_t>(found - recording_.streams.begin());
  }

  // What an event recorded now on a stream stands for: its last work, and what it was
  // told to wait for since.
  std::vector<uint32_t> TailOf(uint32_t stream) const {
    std::vector<uint32_t> tail = pending_[stream];
    if (last_work_[stream] != kNoRow)
      tail.push_back(last_work_[stream]);
    return tail;
  }

  // Which stream it is on is known only once somebody waits for it: all are kept.
  void RecordEvent(uint32_t at, const Point& point) {
    for (const uint32_t work : last_work_)
      if (work != kNoRow && recorded_at_[work] == kNoRow)
        recorded_at_[work] = at;
    if (recording_.syncs.empty())
      return;
    std::vector<std::vector<uint32_t>> tails;
    for (uint32_t stream = 0; stream < last_work_.size(); ++stream)
      tails.push_back(TailOf(stream));
    events_[recording_.calls[point.row].correlation] = std::move(tails);
  }

  // Nothing where the recording does not say which event.
  std::vector<uint32_t> StatedEvent(const SyncRow& row) const {
    const uint32_t stream = StreamOf(row.device, row.awaited_stream);
    if (stream == kNoRow)
      return {};
    const auto event = events_.find(row.record_correlation);
    return event != events_.end() ? event->second[stream] : TailOf(stream);
  }

  void StreamWait(uint32_t at, const Point& point) {
    const HostCall& call = recording_.calls[point.row];
    if (const SyncRow* row = StatedBy(call);
        row != nullptr && row->kind == SyncRow::Kind::kStreamWait) {
      const uint32_t stream = StreamOf(row->device, row->stream);
      if (stream == kNoRow)
        return;  // a stream on which nothing ever runs
      for (const uint32_t work : StatedEvent(*row))
        if (recording_.works[work].stream != stream)
          pending_[stream].push_back(work);
      return;
    }
    const uint32_t next = next_work_[at];
    if (next == kNoRow)
      return;  // nothing comes after it
    Keep({.at = at});
    const uint32_t stream = recording_.works[next].stream;
    const int64_t limit = recording_.works[next].time.begin_ns + kClockNoiseNs;
    uint32_t best = kNoRow;
    for (uint32_t other = 0; other < last_work_.size(); ++other) {
      const uint32_t work = last_work_[other];
      if (other == stream || work == kNoRow || EndOf(work) > limit ||
          std::find(pending_[stream].begin(), pending_[stream].end(), work) !=
              pending_[stream].end())
        continue;
      if (best == kNoRow || EndOf(work) > EndOf(best))
        best = work;
    }
    if (best == kNoRow)
      return;
    open_waits_.back().assumed = best;
    Count(ImportLoss::kInferredWait);
    pending_[stream].push_back(best);
  }

  void Keep(const OpenWait& wait) {
    if (open_waits_.size() == kMostOpenWaits) {
      Drop(open_waits_.front());
      open_waits_.pop_front();
    }
    open_waits_.push_back(wait);
  }
  void Drop(const OpenWait& wait) {
    if (wait.assumed == kNoRow)
      Count(ImportLoss::kUnknownWait);
  }

  static bool BeginsAt(int64_t begin_ns, int64_t end_ns) {
    return end_ns <= begin_ns + kClockNoiseNs && begin_ns <= end_ns + kOrdinaryGapNs;
  }
  // Of another stream, an event behind it was recorded, and it ended last of those at
  // whose end a work of this stream begins.
  uint32_t EndedAt(uint32_t stream, int64_t begin_ns) const {
    uint32_t best = kNoRow;
    for (uint32_t other = 0; other < issued_.size(); ++other) {
      const std::vector<uint32_t>& works = issued_[other];
      if (other == stream)
        continue;
      auto after = std::partition_point(works.begin(), works.end(), [&](uint32_t work) {
        return EndOf(work) <= begin_ns + kClockNoiseNs;
      });
      for (; after != works.begin() && BeginsAt(begin_ns, EndOf(*(after - 1))); --after)
        if (const uint32_t work = *(after - 1);
            recorded_at_[work] != kNoRow &&
            (best == kNoRow || EndOf(work) > EndOf(best)))
          best = work;
    }
    return best;
  }
  // What a work of this stream waits for that has begun then, as far as one of the open
  // waits may be its own. kNoRow: nothing.
  uint32_t TakeOpenWait(uint32_t stream, int64_t begin_ns) {
    const uint32_t work = EndedAt(stream, begin_ns);
    if (work == kNoRow)
      return kNoRow;
    const auto wait = std::find_if(
        open_waits_.begin(), open_waits_.end(),
        [&](const OpenWait& open) { return recorded_at_[work] < open.at; });
    if (wait == open_waits_.end())
      return kNoRow;
    if (wait->assumed == kNoRow)
      Count(ImportLoss::kInferredWait);
    open_waits_.erase(wait);
    return work;
  }
  // The wait was that of the work which has begun at its end.
  void CloseWaitFor(uint32_t awaited) {
    const auto wait =
        std::find_if(open_waits_.begin(), open_waits_.end(),
                     [&](const OpenWait& open) { return open.assumed == awaited; });
    if (wait != open_waits_.end())
      open_waits_.erase(wait);
  }

  // What the work waits for. Of one without a recorded launch it is not known whether
  // it was issued before a wait of its stream: a wait for what ended later than it
  // began is the next one's.
  std::vector<uint32_t> TakePending(uint32_t row) {
    const DeviceWork& work = recording_.works[row];
    std::vector<uint32_t>& pending = pending_[work.stream];
    auto mine = pending.begin();
    if (order_.call_of[row] == kNoRow)
      mine = std::stable_partition(pending.begin(), pending.end(), [&](uint32_t other) {
        return EndOf(other) > work.time.begin_ns + kClockNoiseNs;
      });
    std::vector<uint32_t> taken(mine, pending.end());
    pending.erase(mine, pending.end());
    return taken;
  }

  void Start(const Point& point) {
    const DeviceWork& work = recording_.works[point.row];
    WorkStart& start = found_.works[point.row];
    start.awaited = TakePending(point.row);
    int64_t inputs = std::numeric_limits<int64_t>::min();
    if (last_work_[work.stream] != kNoRow)
      inputs = EndOf(last_work_[work.stream]);
    for (const uint32_t awaited : start.awaited) {
      inputs = std::max(inputs, EndOf(awaited));
      if (BeginsAt(work.time.begin_ns, EndOf(awaited)))
        CloseWaitFor(awaited);
    }
    const int64_t reached = point.at_ns + latency_ns_;
    if (order_.call_of[point.row] != kNoRow &&
        work.time.begin_ns > std::max(inputs, reached) + kOrdinaryGapNs)
      if (const uint32_t other = TakeOpenWait(work.stream, work.time.begin_ns);
          other != kNoRow) {
        start.awaited.push_back(other);
        inputs = std::max(inputs, EndOf(other));
      }
    for (const uint32_t awaited : start.awaited)
      found_.is_awaited[awaited] = true;
    start.begin_ns = std::max({work.time.begin_ns, inputs, reached});
    start.end_ns = std::max(start.begin_ns, work.time.end_ns);
    if (start.begin_ns > work.time.begin_ns)
      Count(ImportLoss::kWorkBeforeInput);
    Explain(point, inputs, &start);
    last_work_[work.stream] = point.row;
    issued_[work.stream].push_back(point.row);
    if (point.thread != kNoRow)
      last_stream_[point.thread] = work.stream;
  }

  void Explain(const Point& point, int64_t inputs, WorkStart* start) {
    const int64_t since_launch = start->begin_ns - point.at_ns;
    if (since_launch <= latency_ns_)
      return;  // as early as a launch can be
    // A launch may take long itself: the first of a kernel loads its code.
    const uint32_t launch = order_.call_of[point.row];
    const int64_t ordinary =
        4 * std::max(order_.typical_latency_ns, latency_ns_) +
        (launch == kNoRow ? 0
                          : recording_.calls[launch].time.end_ns -
                                recording_.calls[launch].time.begin_ns);
    if (inputs <= point.at_ns) {
      start->latency_ns = since_launch - latency_ns_;
      Unexplained(since_launch - ordinary);
      return;
    }
    const int64_t gap = start->begin_ns - inputs;
    if (gap > kOrdinaryGapNs && since_launch <= ordinary) {
      start->latency_ns = since_launch - latency_ns_;
      return;
    }
    start->gap_ns = gap;
    Unexplained(gap - kOrdinaryGapNs);
  }

  void Unexplained(int64_t ns) {
    if (ns <= 0)
      return;
    found_.unexplained_ns += ns;
    ++found_.unexplained_works;
  }

  void HostWait(uint32_t at, const Point& point) {
    const HostCall& call = recording_.calls[point.row];
    std::vector<uint32_t> awaited = AwaitedByHost(call, point.row);
    for (const uint32_t work : awaited)
      found_.is_awaited[work] = true;
    if (!awaited.empty())
      found_.host_waits.emplace(at, std::move(awaited));
  }

  bool EndedBy(uint32_t work, int64_t at_ns, int64_t noise_ns) const {
    return work != kNoRow && EndOf(work) <= at_ns + noise_ns;
  }
  // Issued before `call` began: other threads may have issued more while it waited.
  bool IssuedBefore(uint32_t work, const HostCall& call) const {
    const uint32_t launch = order_.call_of[work];
    return launch == kNoRow ||
           recording_.calls[launch].time.begin_ns <= call.time.begin_ns;
  }

  std::vector<uint32_t> AwaitedByHost(const HostCall& call, uint32_t row) {
    if (const SyncRow* stated = StatedBy(call)) {
      std::vector<uint32_t> awaited;
      if (stated->kind == SyncRow::Kind::kStream) {
        if (const uint32_t stream = StreamOf(stated->device, stated->stream);
            stream != kNoRow)
          awaited = TailOf(stream);
      } else if (stated->kind == SyncRow::Kind::kEvent) {
        awaited = StatedEvent(*stated);
      } else {
        awaited = AllTails();
      }
      Drop(call, kStatedNoiseNs, &awaited);
      return awaited;
    }
    const std::string& name = recording_.names[call.name];
    if (IsDeviceWait(name)) {
      std::vector<uint32_t> awaited = AllTails();
      Drop(call, kStatedNoiseNs, &awaited);
      return awaited;
    }
    std::vector<uint32_t> copies = CopiesOf(row);
    Drop(call, 0, &copies);
    if (!copies.empty())
      return copies;
    if (IsStreamWait(name) || IsEventWait(name) || IsFree(name))
      Count(ImportLoss::kInferredSync);
    if (IsStreamWait(name)) {
      const uint32_t stream = last_stream_[call.thread];
      const uint32_t work = stream == kNoRow ? kNoRow : last_work_[stream];
      if (EndedBy(work, call.time.end_ns, kClockNoiseNs) && IssuedBefore(work, call))
        return {work};
    }
    const uint32_t last = EndedLast(call);
    return last == kNoRow ? std::vector<uint32_t>() : std::vector<uint32_t>{last};
  }

  std::vector<uint32_t> AllTails() const {
    std::vector<uint32_t> works;
    for (uint32_t stream = 0; stream < last_work_.size(); ++stream)
      for (const uint32_t work : TailOf(stream))
        works.push_back(work);
    return works;
  }
  // What had not ended when the call returned, or was issued later, is not what it
  // waited for.
  void Drop(const HostCall& call, int64_t noise_ns, std::vector<uint32_t>* works) {
    std::erase_if(*works, [&](uint32_t work) {
      return !EndedBy(work, call.time.end_ns, noise_ns) || !IssuedBefore(work, call);
    });
  }
  std::vector<uint32_t> CopiesOf(uint32_t call) const {
    std::vector<uint32_t> copies;
    for (const uint32_t work : last_work_)
      if (work != kNoRow && order_.call_of[work] == call &&
          recording_.works[work].work == WorkClass::kCopy)
        copies.push_back(work);
    return copies;
  }
  // Of all that was issued; an event may lie before the end of its stream.
  uint32_t EndedLast(const HostCall& call) const {
    uint32_t last = kNoRow;
    for (const std::vector<uint32_t>& works : issued_) {
      auto after = std::partition_point(works.begin(), works.end(), [&](uint32_t work) {
        return EndedBy(work, call.time.end_ns, kClockNoiseNs);
      });
      while (after != works.begin() && !IssuedBefore(*(after - 1), call))
        --after;
      if (after != works.begin() &&
          (last == kNoRow || EndOf(*(after - 1)) > EndOf(last)))
        last = *(after - 1);
    }
    return last;
  }

  const Recording& recording_;
  const HostOrder& order_;
  const int64_t latency_ns_;
  ImportLosses* const losses_;
  Dependencies found_;
  std::vector<uint32_t> next_work_;
  std::vector<uint32_t> last_work_;             // by stream: issued last
  std::vector<std::vector<uint32_t>> pending_;  // by stream: to wait for
  std::vector<std::vector<uint32_t>> issued_;   // by stream, in order
  std::vector<uint32_t> last_stream_;           // by thread: used last
  std::deque<OpenWait> open_waits_;             // in order
  std::vector<uint32_t> recorded_at_;  // by work: point of the first event behind it
  // By correlation of the recording call: TailOf every stream then.
  std::unordered_map<int64_t, std::vector<std::vector<uint32_t>>> events_;
};

}  // namespace

Dependencies FindDependencies(const Recording& recording, const HostOrder& order,
                              int64_t latency_ns, ImportLosses* losses) {
  return Explainer(recording, order, latency_ns, losses).Run();
}

}  // namespace vrank::graph
