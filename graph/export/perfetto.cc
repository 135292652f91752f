// Tracks first, then the events of each track in order of time.

#include "graph/export/perfetto.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/analysis/replay_report.h"
#include "graph/export/perfetto_arrows.h"
#include "graph/export/trace_packet_writer.h"

namespace vrank::graph {
namespace {

// trace_packet.proto, interned_data.proto, track_descriptor.proto,
// process_descriptor.proto, thread_descriptor.proto, counter_descriptor.proto,
// track_event.proto
enum : uint32_t {
  kTracePacket = 1,
  kPacketTimestamp = 8,
  kPacketSequence = 10,
  kPacketTrackEvent = 11,
  kPacketInterned = 12,
  kPacketSequenceFlags = 13,
  kPacketTrackDescriptor = 60,
  kInternedEventName = 2,
  kNameId = 1,
  kNameText = 2,
  kTrackUuid = 1,
  kTrackName = 2,
  kTrackProcess = 3,
  kTrackThread = 4,
  kTrackParent = 5,
  kTrackCounter = 8,
  kProcessPid = 1,
  kProcessName = 6,
  kThreadPid = 1,
  kThreadTid = 2,
  kThreadName = 5,
  kCounterUnit = 3,
  kUnitBytes = 3,
  kEventType = 9,
  kEventNameId = 10,
  kEventTrack = 11,
  kEventCounterValue = 30,
  kEventFlows = 47,
  kEventEndingFlows = 48,
};
enum : uint64_t { kSliceBegin = 1, kSliceEnd = 2, kCounter = 4 };
// Names are numbers that an earlier packet of the sequence defines: the first packet
// says that none is known yet, all others that they need those before them.
enum : uint64_t { kNothingKnown = 1, kNeedsWhatIsKnown = 2 };
constexpr uint64_t kSequence = 1;

struct Slice {
  int64_t begin_ns, end_ns;
  std::string name;
  uint32_t op;  // kNone: no communication
};

class Writer {
 public:
  Writer(const Timeline& timeline, const PerfettoOptions& options, std::ostream& out)
      : timeline_(timeline),
        options_(options),
        processes_(ProcessesOf(timeline, options)),
        arrows_(&timeline_, &processes_, &options_),
        out_(out) {}

  void Write() {
    for (uint32_t process = 0; process < processes_.size(); ++process)
      WriteProcess(process);
  }

 private:
  // 2^20 tracks per process, the process itself first.
  enum Track : uint64_t { kProcess, kMemory, kRanges, kHost, kLanes };
  static uint64_t Uuid(uint32_t process, uint64_t track) {
    return (uint64_t{process} + 1) << 20 | track;
  }
  const PlayedRank& PlayedBy(uint32_t process) const {
    return timeline_.ranks()[processes_[process].played];
  }

  void Put(ProtoMessage packet) {
    packet.AddVarint(kPacketSequence, kSequence);
    packet.AddVarint(kPacketSequenceFlags,
                     std::exchange(first_, false) ? kNothingKnown : kNeedsWhatIsKnown);
    ProtoMessage trace;
    trace.AddMessage(kTracePacket, packet);
    out_.write(trace.bytes().data(),
               static_cast<std::streamsize>(trace.bytes().size()));
  }
  void PutTrack(const ProtoMessage& track) {
    ProtoMessage packet;
    packet.AddMessage(kPacketTrackDescriptor, track);
    Put(std::move(packet));
  }
  void PutEvent(int64_t ns, const ProtoMessage& event) {
    ProtoMessage packet;
    packet.AddVarint(kPacketTimestamp, static_cast<uint64_t>(ns));
    packet.AddMessage(kPacketTrackEvent, event);
    Put(std::move(packet));
  }
  uint64_t NameId(const std::string& text) {
    const auto [known, is_new] = names_.try_emplace(text, names_.size() + 1);
    if (is_new) {
      ProtoMessage name, interned, packet;
      name.AddVarint(kNameId, known->second);
      name.AddBytes(kNameText, text);
      interned.AddMessage(kInternedEventName, name);
      packet.AddMessage(kPacketInterned, interned);
      Put(std::move(packet));
    }
    return known->second;
  }

  void PutProcess(uint32_t number) {
    const PerfettoProcess& shown = processes_[number];
    ProtoMessage process, track;
    process.AddVarint(kProcessPid, static_cast<uint64_t>(shown.world_rank) + 1);
    // The UI puts processes with many slices first and sorts equal ones by name, so all
    // numbers have the digits of the last.
    const std::string name =
        fmt::format("rank {:0{}}", shown.world_rank,
                    fmt::formatted_size("{}", processes_.back().world_rank));
    process.AddBytes(
        kProcessName,
        shown.ranks == 1 ? name : fmt::format("{} and {} more", name, shown.ranks - 1));
    track.AddVarint(kTrackUuid, Uuid(number, kProcess));
    track.AddMessage(kTrackProcess, process);
    PutTrack(track);
  }
  void PutThread(uint32_t process, uint64_t number, const std::string& name) {
    ProtoMessage thread, track;
    thread.AddVarint(kThreadPid,
                     static_cast<uint64_t>(processes_[process].world_rank) + 1);
    thread.AddVarint(kThreadTid, ++threads_);
    thread.AddBytes(kThreadName, name);
    track.AddVarint(kTrackUuid, Uuid(process, number));
    track.AddVarint(kTrackParent, Uuid(process, kProcess));
    track.AddMessage(kTrackThread, thread);
    PutTrack(track);
  }
  void PutMemoryTrack(uint32_t process) {
    ProtoMessage counter, track;
    counter.AddVarint(kCounterUnit, kUnitBytes);
    track.AddVarint(kTrackUuid, Uuid(process, kMemory));
    track.AddVarint(kTrackParent, Uuid(process, kProcess));
    track.AddBytes(kTrackName, "device memory");
    track.AddMessage(kTrackCounter, counter);
    PutTrack(track);
  }

  void WriteProcess(uint32_t process) {
    span_ = SpanOf(options_, processes_[process].played);
    PutProcess(process);
    PutMemoryTrack(process);
    PutThread(process, kRanges, "ranges");
    PutThread(process, kHost, "host");
    const PlayedRank& played = PlayedBy(process);
    std::map<uint32_t, std::vector<Slice>> lanes;
    std::vector<Slice> host;
    for (uint32_t i = 0; i < played.times.size(); ++i) {
      const Op& op = played.program->op(i);
      const OpTimes& times = played.times[i];
      PathSegment segment;
      segment.at = {processes_[process].played, i};
      if (op.kind == OpKind::kWork || op.kind == OpKind::kHostFunc)
        segment.kind = PathKind::kWork;
      else if (op.kind == OpKind::kCollective || op.kind == OpKind::kTransfers)
        segment.kind = PathKind::kCommunication;
      if (segment.kind != PathKind::kHost && span_.Shows(times.begin, times.end))
        lanes[op.lane].push_back(
            {Cut(times.begin), Cut(times.end), NameOf(timeline_, segment), i});
      AddHostTime(op, times.reached, &host);
      if (op.from_helper == 0 && times.passed > times.reached &&
          span_.Shows(times.reached, times.passed))
        host.push_back({Cut(times.reached), Cut(times.passed), Name(op.kind), kNone});
    }
    for (const auto& [lane, slices] : lanes) {
      PutThread(process, kLanes + lane, fmt::format("stream {}", lane));
      WriteSlices(process, kLanes + lane, slices);
    }
    WriteSlices(process, kHost, host);
    WriteRanges(process);
    WriteMemory(process);
  }
  // What the host does up to `reached_ns`, where that is a span of its own: calls of a
  // virtual GPU cost it assumed magnitudes, which are none.
  void AddHostTime(const Op& op, int64_t reached_ns, std::vector<Slice>* host) const {
    const int64_t begin_ns = reached_ns - op.host_ns;
    const bool is_known =
        op.host_source == Source::kRecorded || op.host_source == Source::kMeasured;
    if (op.host_ns == 0 || (!is_known && op.kind != OpKind::kHost) ||
        !span_.Shows(begin_ns, reached_ns))
      return;
    std::string name = fmt::format("host time, {}", Name(op.host_source));
    if (!host->empty() && host->back().end_ns == Cut(begin_ns) &&
        host->back().name == name)
      host->back().end_ns = Cut(reached_ns);
    else
      host->push_back({Cut(begin_ns), Cut(reached_ns), std::move(name), kNone});
  }
  int64_t Cut(int64_t ns) const { return std::clamp(ns, span_.begin_ns, span_.end_ns); }

  // REQUIRES: in order of time, one after the other.
  void WriteSlices(uint32_t process, uint64_t track, const std::vector<Slice>& slices) {
    for (const Slice& slice : slices) {
      ProtoMessage begin;
      begin.AddVarint(kEventType, kSliceBegin);
      begin.AddVarint(kEventTrack, Uuid(process, track));
      begin.AddVarint(kEventNameId, NameId(slice.name));
      if (slice.op != kNone) {
        for (const uint64_t arrow : arrows_.From(process, slice.op))
          begin.AddFixed64(kEventFlows, arrow);
        for (const uint64_t arrow : arrows_.To(process, slice.op))
          begin.AddFixed64(kEventEndingFlows, arrow);
      }
      PutEvent(slice.begin_ns, begin);
      PutEnd(process, track, slice.end_ns);
    }
  }
  void PutEnd(uint32_t process, uint64_t track, int64_t ns) {
    ProtoMessage end;
    end.AddVarint(kEventType, kSliceEnd);
    end.AddVarint(kEventTrack, Uuid(process, track));
    PutEvent(ns, end);
  }

  void WriteRanges(uint32_t process) {
    const PlayedRank& played = PlayedBy(process);
    const Details& details = played.program->details();
    std::vector<uint32_t> open;
    std::vector<bool> shown(played.times.size(), false);  // by op
    const auto note = [&](uint32_t begin, int64_t end_ns) {
      shown[begin] = span_.Shows(played.times[begin].passed, end_ns);
      return shown[begin];
    };
    constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();
    for (uint32_t i = 0; i < played.times.size(); ++i) {
      const OpKind kind = played.program->op(i).kind;
      if (kind == OpKind::kRangeBegin) {
        open.push_back(i);
      } else if (kind == OpKind::kRangeEnd && !open.empty()) {
        shown[i] = note(open.back(), played.times[i].passed);
        open.pop_back();
      }
    }
    size_t cut_open = 0;  // those that the program leaves open, where the span ends
    for (const uint32_t begin : open)
      cut_open += note(begin, kForEver) && span_.end_ns != kForEver ? 1 : 0;
    for (uint32_t i = 0; i < played.times.size(); ++i) {
      const Op& op = played.program->op(i);
      if (!shown[i])
        continue;
      if (op.kind == OpKind::kRangeEnd) {
        PutEnd(process, kRanges, Cut(played.times[i].passed));
        continue;
      }
      ProtoMessage begin;
      begin.AddVarint(kEventType, kSliceBegin);
      begin.AddVarint(kEventTrack, Uuid(process, kRanges));
      begin.AddVarint(kEventNameId, NameId(details.names[op.a]));
      PutEvent(Cut(played.times[i].passed), begin);
    }
    for (; cut_open > 0; --cut_open)
      PutEnd(process, kRanges, span_.end_ns);
  }

  // What was taken before the span begins is its first value.
  void WriteMemory(uint32_t process) {
    const PlayedRank& played = PlayedBy(process);
    int64_t bytes = 0;
    const auto put = [&](int64_t ns) {
      ProtoMessage event;
      event.AddVarint(kEventType, kCounter);
      event.AddVarint(kEventTrack, Uuid(process, kMemory));
      event.AddVarint(kEventCounterValue, static_cast<uint64_t>(bytes));
      PutEvent(ns, event);
    };
    bool inside = false;
    for (uint32_t i = 0; i < played.times.size(); ++i) {
      const Op& op = played.program->op(i);
      const int64_t ns = played.times[i].passed;
      if (op.kind != OpKind::kMemory)
        continue;
      if (!inside && ns >= span_.begin_ns && bytes != 0)
        put(span_.begin_ns);
      inside |= ns >= span_.begin_ns;
      bytes += op.value;
      if (span_.Shows(ns, ns))
        put(ns);
    }
    if (!inside && bytes != 0)
      put(span_.begin_ns);
  }

  const Timeline& timeline_;
  const PerfettoOptions& options_;
  const std::vector<PerfettoProcess> processes_;
  const PerfettoArrows arrows_;
  std::ostream& out_;
  PerfettoSpan span_;  // of the process at hand
  bool first_ = true;  // the packet at hand
  std::map<std::string, uint64_t> names_;
  uint64_t threads_ = 1'000'000;  // thread numbers, beyond those of processes
};

}  // namespace

absl::Status WritePerfetto(const Timeline& timeline, const PerfettoOptions& options,
                           std::ostream& out) {
  Writer(timeline, options, out).Write();
  out.flush();
  if (!out)
    return absl::DataLossError("the trace could not be written in full");
  return absl::OkStatus();
}

}  // namespace vrank::graph
