// Tracks first, then the events of each track in order of time.

#include "graph/export/perfetto.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/analysis/replay_report.h"
#include "graph/export/trace_packet_writer.h"

namespace vrank::graph {
namespace {

// trace_packet.proto, track_descriptor.proto, process_descriptor.proto,
// thread_descriptor.proto, counter_descriptor.proto, track_event.proto
enum : uint32_t {
  kTracePacket = 1,
  kPacketTimestamp = 8,
  kPacketSequence = 10,
  kPacketTrackEvent = 11,
  kPacketTrackDescriptor = 60,
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
  kEventTrack = 11,
  kEventName = 23,
  kEventCounterValue = 30,
  kEventFlows = 47,
  kEventEndingFlows = 48,
};
enum : uint64_t { kSliceBegin = 1, kSliceEnd = 2, kCounter = 4 };

struct Slice {
  int64_t begin_ns, end_ns;
  std::string name;
  OpPlace at;
};

class Writer {
 public:
  Writer(const Timeline& timeline, std::ostream& out)
      : timeline_(timeline), out_(out) {}

  void Write() {
    for (uint32_t rank = 0; rank < timeline_.ranks().size(); ++rank)
      FindFlows(rank);
    for (uint32_t rank = 0; rank < timeline_.ranks().size(); ++rank)
      WriteRank(rank);
  }

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // rank, op

  // A process per played rank: 2^20 tracks each, the process itself first.
  enum Track : uint64_t { kProcess, kMemory, kRanges, kHost, kLanes };
  static uint64_t Uuid(uint32_t rank, uint64_t track) {
    return (uint64_t{rank} + 1) << 20 | track;
  }

  void Put(const ProtoMessage& packet) {
    ProtoMessage trace;
    trace.AddMessage(kTracePacket, packet);
    out_.write(trace.bytes().data(),
               static_cast<std::streamsize>(trace.bytes().size()));
  }
  void PutTrack(ProtoMessage track) {
    ProtoMessage packet;
    packet.AddVarint(kPacketSequence, 1);
    packet.AddMessage(kPacketTrackDescriptor, track);
    Put(packet);
  }
  void PutEvent(int64_t ns, const ProtoMessage& event) {
    ProtoMessage packet;
    packet.AddVarint(kPacketTimestamp, static_cast<uint64_t>(ns));
    packet.AddVarint(kPacketSequence, 1);
    packet.AddMessage(kPacketTrackEvent, event);
    Put(packet);
  }

  void PutProcess(uint32_t rank) {
    const PlayedRank& played = timeline_.ranks()[rank];
    ProtoMessage process, track;
    process.AddVarint(kProcessPid, uint64_t{rank} + 1);
    process.AddBytes(
        kProcessName,
        played.ranks == 1
            ? fmt::format("rank {}", played.world_rank)
            : fmt::format("rank {} and {} more", played.world_rank, played.ranks - 1));
    track.AddVarint(kTrackUuid, Uuid(rank, kProcess));
    track.AddMessage(kTrackProcess, process);
    PutTrack(std::move(track));
  }
  void PutThread(uint32_t rank, uint64_t number, const std::string& name) {
    ProtoMessage thread, track;
    thread.AddVarint(kThreadPid, uint64_t{rank} + 1);
    thread.AddVarint(kThreadTid, ++threads_);
    thread.AddBytes(kThreadName, name);
    track.AddVarint(kTrackUuid, Uuid(rank, number));
    track.AddVarint(kTrackParent, Uuid(rank, kProcess));
    track.AddMessage(kTrackThread, thread);
    PutTrack(std::move(track));
  }
  void PutMemoryTrack(uint32_t rank) {
    ProtoMessage counter, track;
    counter.AddVarint(kCounterUnit, kUnitBytes);
    track.AddVarint(kTrackUuid, Uuid(rank, kMemory));
    track.AddVarint(kTrackParent, Uuid(rank, kProcess));
    track.AddBytes(kTrackName, "device memory");
    track.AddMessage(kTrackCounter, counter);
    PutTrack(std::move(track));
  }

  // An arrow joins the two sides of a communication: who comes last, and who waits for
  // it; sender and receiver. Perfetto's flows run forwards in time, so it begins where
  // the earlier side begins.
  void FindFlows(uint32_t rank) {
    const PlayedRank& played = timeline_.ranks()[rank];
    for (uint32_t i = 0; i < played.times.size(); ++i) {
      const OpKind kind = played.program->op(i).kind;
      if (kind != OpKind::kCollective && kind != OpKind::kTransfers)
        continue;
      const auto why = Explain(timeline_, {rank, i});
      if (!why)
        continue;
      const int64_t from_ns = played.times[i].begin;
      const int64_t to_ns = timeline_.TimesAt(why->other).begin;
      Key from{rank, i}, to{why->other.rank, why->other.op};
      if (to_ns < from_ns)
        std::swap(from, to);
      if (to_ns == from_ns || !joined_.emplace(from, to).second)
        continue;
      ++flows_;
      starts_[from].push_back(flows_);
      ends_[to].push_back(flows_);
    }
  }

  void WriteRank(uint32_t rank) {
    const PlayedRank& played = timeline_.ranks()[rank];
    PutProcess(rank);
    PutMemoryTrack(rank);
    PutThread(rank, kRanges, "ranges");
    PutThread(rank, kHost, "host");
    std::map<uint32_t, std::vector<Slice>> lanes;
    std::vector<Slice> host;
    for (uint32_t i = 0; i < played.times.size(); ++i) {
      const Op& op = played.program->op(i);
      const OpTimes& times = played.times[i];
      PathSegment segment;
      segment.at = {rank, i};
      if (op.kind == OpKind::kWork || op.kind == OpKind::kHostFunc)
        segment.kind = PathKind::kWork;
      else if (op.kind == OpKind::kCollective || op.kind == OpKind::kTransfers)
        segment.kind = PathKind::kCommunication;
      if (segment.kind != PathKind::kHost) {
        lanes[op.lane].push_back(
            {times.begin, times.end, NameOf(timeline_, segment), segment.at});
      }
      if (op.from_helper == 0 && times.passed > times.reached)
        host.push_back({times.reached, times.passed, Name(op.kind), {rank, kNone}});
    }
    for (const auto& [lane, slices] : lanes) {
      PutThread(rank, kLanes + lane, fmt::format("stream {}", lane));
      WriteSlices(Uuid(rank, kLanes + lane), slices);
    }
    WriteSlices(Uuid(rank, kHost), host);
    WriteRangesAndMemory(rank);
  }

  // REQUIRES: in order of time, one after the other.
  void WriteSlices(uint64_t track, const std::vector<Slice>& slices) {
    for (const Slice& slice : slices) {
      ProtoMessage begin, end;
      begin.AddVarint(kEventType, kSliceBegin);
      begin.AddVarint(kEventTrack, track);
      begin.AddBytes(kEventName, slice.name);
      const Key key(slice.at.rank, slice.at.op);
      if (const auto starts = starts_.find(key); starts != starts_.end()) {
        for (const uint64_t flow : starts->second)
          begin.AddFixed64(kEventFlows, flow);
      }
      if (const auto ends = ends_.find(key); ends != ends_.end()) {
        for (const uint64_t flow : ends->second)
          begin.AddFixed64(kEventEndingFlows, flow);
      }
      PutEvent(slice.begin_ns, begin);
      end.AddVarint(kEventType, kSliceEnd);
      end.AddVarint(kEventTrack, track);
      PutEvent(slice.end_ns, end);
    }
  }

  void WriteRangesAndMemory(uint32_t rank) {
    const PlayedRank& played = timeline_.ranks()[rank];
    const Details& details = played.program->details();
    int64_t bytes = 0;
    int depth = 0;
    for (uint32_t i = 0; i < played.times.size(); ++i) {
      const Op& op = played.program->op(i);
      ProtoMessage event;
      if (op.kind == OpKind::kMemory) {
        bytes += op.value;
        event.AddVarint(kEventType, kCounter);
        event.AddVarint(kEventTrack, Uuid(rank, kMemory));
        event.AddVarint(kEventCounterValue, static_cast<uint64_t>(bytes));
      } else if (op.kind == OpKind::kRangeBegin) {
        ++depth;
        event.AddVarint(kEventType, kSliceBegin);
        event.AddVarint(kEventTrack, Uuid(rank, kRanges));
        event.AddBytes(kEventName,
                       op.a < details.names.size() ? details.names[op.a] : "");
      } else if (op.kind == OpKind::kRangeEnd && depth > 0) {
        --depth;
        event.AddVarint(kEventType, kSliceEnd);
        event.AddVarint(kEventTrack, Uuid(rank, kRanges));
      } else {
        continue;
      }
      PutEvent(played.times[i].passed, event);
    }
  }

  const Timeline& timeline_;
  std::ostream& out_;
  uint64_t flows_ = 0;
  std::set<std::pair<Key, Key>> joined_;
  std::map<Key, std::vector<uint64_t>> starts_, ends_;
  uint64_t threads_ = 1'000'000;  // thread numbers, beyond those of processes
};

}  // namespace

absl::Status WritePerfetto(const Timeline& timeline, std::ostream& out) {
  Writer(timeline, out).Write();
  out.flush();
  if (!out)
    return absl::DataLossError("the trace could not be written in full");
  return absl::OkStatus();
}

}  // namespace vrank::graph
