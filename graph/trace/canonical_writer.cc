// Rows to records, records to chunks.

#include "graph/trace/canonical_writer.h"

#include <zstd.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/guest/trace_format.h"
#include "base/status_macros.h"
#include "graph/trace/session_proto.h"

namespace vrank::graph {
namespace {

using trace::Kind;

// Beyond this a chunk is full; one record may make it longer.
constexpr size_t kChunkBytes = 1 << 20;
constexpr int kZstdLevel = 3;

class ChunkMaker {
 public:
  using Put = std::function<absl::Status(std::string_view)>;
  ChunkMaker(bool compress, const Put& put) : compress_(compress), put_(put) {}

  template <typename T>
  void Add(Kind kind, uint16_t flags, T record, std::string_view tail = {}) {
    record.record = {
        kind, flags,
        trace::RoundUp8(static_cast<uint32_t>(sizeof record + tail.size()))};
    if (plain_.size() + record.record.size > kChunkBytes)
      Close();
    plain_.append(reinterpret_cast<const char*>(&record), sizeof record);
    plain_.append(tail);
    plain_.resize((plain_.size() + 7) / 8 * 8);
    ++records_;
  }

  absl::Status Finish() {
    Close();
    return status_;
  }

 private:
  void Close() {
    if (records_ == 0 || !status_.ok())
      return;
    if (plain_.size() > trace::kMaxChunkBytes) {
      status_ = absl::InvalidArgumentError(fmt::format(
          "a record of {} bytes does not fit into a .vtrace file", plain_.size()));
      return;
    }
    std::string bytes(sizeof(trace::ChunkHeader), '\0');
    trace::ChunkHeader header{};
    std::memcpy(header.magic, trace::kMagic, sizeof header.magic);
    header.version = trace::kVersion;
    header.source = trace::Source::kCanonical;
    header.sequence = sequence_++;
    header.records = records_;
    header.plain_bytes = static_cast<uint32_t>(plain_.size());
    header.encoding = compress_ ? trace::Encoding::kZstd : trace::Encoding::kPlain;
    if (compress_) {
      bytes.resize(sizeof header + ZSTD_compressBound(plain_.size()));
      const size_t packed =
          ZSTD_compress(bytes.data() + sizeof header, bytes.size() - sizeof header,
                        plain_.data(), plain_.size(), kZstdLevel);
      if (ZSTD_isError(packed) != 0) {
        status_ = absl::InternalError(
            fmt::format("zstd cannot compress a chunk: {}", ZSTD_getErrorName(packed)));
        return;
      }
      header.encoded_bytes = static_cast<uint32_t>(packed);
      bytes.resize(sizeof header + packed);
      bytes.resize((bytes.size() + 7) / 8 * 8);
    } else {
      header.encoded_bytes = header.plain_bytes;
      bytes += plain_;
    }
    header.stored_bytes = static_cast<uint32_t>(bytes.size() - sizeof header);
    header.crc = HostCrc32c(bytes.data() + sizeof header, header.stored_bytes,
                            HostCrc32c(&header, sizeof header));
    std::memcpy(bytes.data(), &header, sizeof header);
    status_ = put_(bytes);
    plain_.clear();
    records_ = 0;
  }

  const bool compress_;
  const Put& put_;
  std::string plain_;
  uint32_t records_ = 0;
  uint32_t sequence_ = 0;
  absl::Status status_;
};

void AddCalls(const RankTrace& trace, ChunkMaker* out) {
  for (const TracedCall& row : trace.calls)
    out->Add(Kind::kCall, row.is_driver ? trace::kDriverCall : 0,
             trace::Call{.record = {},
                         .function = row.function,
                         .correlation = row.correlation,
                         .thread = row.thread,
                         .result = row.result,
                         .start_ns = row.start_ns,
                         .end_ns = row.end_ns});
}

void AddWork(const RankTrace& trace, ChunkMaker* out) {
  for (const TracedWork& row : trace.work) {
    trace::Work work{};
    work.work = row.work == WorkClass::kCopy     ? trace::WorkKind::kCopy
                : row.work == WorkClass::kMemset ? trace::WorkKind::kMemset
                                                 : trace::WorkKind::kKernel;
    work.correlation = row.correlation;
    work.device = row.device;
    work.context = row.context;
    work.stream = row.stream;
    work.name = row.name;
    for (int i = 0; i < 3; ++i) {
      work.grid[i] = row.grid[i];
      work.block[i] = row.block[i];
    }
    work.shared_bytes = row.shared_bytes;
    work.registers = row.registers;
    work.copy_kind = row.copy_kind;
    work.bytes = row.bytes;
    work.graph_node = row.graph_node;
    work.start_ns = row.start_ns;
    work.end_ns = row.end_ns;
    out->Add(Kind::kWork, 0, work);
  }
}

void AddEdges(const RankTrace& trace, ChunkMaker* out) {
  for (const TracedSync& row : trace.syncs)
    out->Add(Kind::kSync, 0,
             trace::Sync{.record = {},
                         .sync = static_cast<uint32_t>(row.kind),
                         .correlation = row.correlation,
                         .context = row.context,
                         .stream = row.stream,
                         .event = row.event,
                         .reserved = 0,
                         .event_sync_id = row.event_sync_id,
                         .start_ns = row.start_ns,
                         .end_ns = row.end_ns});
  for (const TracedEventRecord& row : trace.event_records)
    out->Add(Kind::kEventRecord, 0,
             trace::EventRecord{.record = {},
                                .correlation = row.correlation,
                                .context = row.context,
                                .stream = row.stream,
                                .event = row.event,
                                .event_sync_id = row.event_sync_id});
  for (const TracedStream& row : trace.streams)
    out->Add(Kind::kStream, row.destroyed ? trace::kDestroyed : 0,
             trace::Stream{.record = {},
                           .context = row.context,
                           .stream = row.stream,
                           .stream_kind = static_cast<trace::StreamKind>(row.kind),
                           .priority = row.priority,
                           .correlation = row.correlation,
                           .reserved = 0});
}

void AddMemory(const RankTrace& trace, ChunkMaker* out) {
  for (const TracedMemory& row : trace.memory) {
    const int flags = (row.release ? trace::kReleased : 0) |
                      (row.device ? 0 : trace::kHostMemory) |
                      (row.is_async ? trace::kAsync : 0);
    out->Add(Kind::kMemory, static_cast<uint16_t>(flags),
             trace::Memory{.record = {},
                           .correlation = row.correlation,
                           .stream = row.stream,
                           .address = row.address,
                           .bytes = row.bytes,
                           .time_ns = row.time_ns});
  }
  for (const TracedReserve& row : trace.reserves)
    out->Add(Kind::kReserve, 0,
             trace::Reserve{.record = {},
                            .owner = row.owner,
                            .correlation = row.correlation,
                            .delta_bytes = row.delta_bytes,
                            .time_ns = row.time_ns,
                            .communicator = row.communicator,
                            .reserved = 0});
}

void AddRanges(const RankTrace& trace, ChunkMaker* out) {
  for (const TracedRange& row : trace.ranges)
    out->Add(Kind::kRange, row.begin ? 0 : trace::kRangeEnds,
             trace::Range{.record = {},
                          .thread = row.thread,
                          .id = row.id,
                          .name = row.name,
                          .reserved = 0,
                          .time_ns = row.time_ns});
  for (const TracedOverhead& row : trace.overheads) {
    const bool full = row.kind == TracedOverhead::Kind::kLaunchQueueFull;
    out->Add(Kind::kOverhead, full ? trace::kLaunchQueueFull : 0,
             trace::Overhead{.record = {},
                             .correlation = row.correlation,
                             .thread = row.thread,
                             .overhead = 0,
                             .reserved = 0,
                             .start_ns = row.start_ns,
                             .end_ns = row.end_ns});
  }
}

void AddOperations(const RankTrace& trace, ChunkMaker* out) {
  for (const TracedOperation& row : trace.operations) {
    if (row.is_collective) {
      trace::Collective call{};
      call.operation_id = row.captured;
      call.count = row.call.count;
      call.correlation = row.correlation;
      call.communicator = row.communicator;
      call.stream = row.stream;
      call.root = row.call.root;
      call.operation = row.call.operation;
      call.type = row.call.type;
      call.reduction = row.call.reduction;
      out->Add(Kind::kCollective, row.captured != 0 ? trace::kCaptured : 0, call);
      continue;
    }
    trace::Transfers group{};
    group.operation_id = row.captured;
    group.correlation = row.correlation;
    group.communicator = row.communicator;
    group.stream = row.stream;
    group.count = static_cast<uint32_t>(row.transfers.size());
    out->Add(Kind::kTransfers, row.captured != 0 ? trace::kCaptured : 0, group,
             {reinterpret_cast<const char*>(row.transfers.data()),
              row.transfers.size() * sizeof(Transfer)});
  }
}

void AddGraphs(const RankTrace& trace, ChunkMaker* out) {
  for (const TracedGraphNode& row : trace.graph_nodes) {
    trace::GraphNode node{};
    node.node = row.node;
    node.graph = row.graph;
    node.index = row.index;
    node.type = static_cast<uint32_t>(row.kind);
    node.before = static_cast<uint32_t>(row.before.size());
    node.operations = static_cast<uint32_t>(row.operations.size());
    std::vector<uint64_t> tail(row.before.begin(), row.before.end());
    tail.insert(tail.end(), row.operations.begin(), row.operations.end());
    out->Add(
        Kind::kGraphNode, 0, node,
        {reinterpret_cast<const char*>(tail.data()), tail.size() * sizeof tail[0]});
  }
  for (const TracedGraphChange& row : trace.graph_changes)
    out->Add(Kind::kGraphChange, row.ended ? trace::kDestroyed : 0,
             trace::GraphChange{
                 .record = {}, .graph = row.graph, .correlation = row.correlation});
  for (const TracedGraphLaunch& row : trace.graph_launches)
    out->Add(Kind::kGraphLaunch, 0,
             trace::GraphLaunch{.record = {},
                                .correlation = row.correlation,
                                .graph = row.graph,
                                .context = row.context,
                                .stream = row.stream});
}

void AddHostTimes(const RankTrace& trace, ChunkMaker* out) {
  for (const TracedHostTime& row : trace.host_times)
    out->Add(Kind::kHostTime,
             row.source == Source::kMeasured ? trace::kMeasuredTime : 0,
             trace::HostTime{.record = {}, .after_ns = row.after_ns, .ns = row.ns});
}

// `name_of`: numbers of the communicators' names, in the order of the calls.
void AddNcclCalls(const RankTrace& trace, const std::vector<uint32_t>& name_of,
                  ChunkMaker* out) {
  size_t next_name = 0;
  for (const TracedNcclCall& row : trace.nccl_calls) {
    const uint32_t name = name_of[next_name++];
    if (row.kind == TracedNcclCall::Kind::kRelease) {
      out->Add(Kind::kRelease, 0,
               trace::Release{.record = {},
                              .communicator = row.communicator,
                              .thread = row.thread,
                              .release = row.release,
                              .reserved = 0,
                              .start_ns = row.start_ns,
                              .end_ns = row.end_ns});
      continue;
    }
    trace::Creation creation{};
    creation.communicator = row.communicator;
    creation.thread = row.thread;
    creation.parent = row.creation.parent;
    creation.color = row.creation.color;
    creation.key = row.creation.key;
    creation.ranks = row.creation.ranks;
    creation.rank = row.creation.rank;
    creation.name = name;
    creation.told_size = row.told_size;
    creation.told_index = row.told_index;
    creation.start_ns = row.start_ns;
    creation.end_ns = row.end_ns;
    std::memcpy(creation.unique_id, row.creation.unique_id.data(),
                sizeof creation.unique_id);
    out->Add(Kind::kCreation, 0, creation);
  }
}

// Defines all names by their index. Returns the numbers of the communicators' names, in
// the order of the calls; those that the table lacks are added.
std::vector<uint32_t> AddNames(const RankTrace& trace, ChunkMaker* out) {
  std::map<std::string_view, uint32_t> number_of{{"", 0}};
  uint32_t last = 0;
  const auto define = [&](const std::string& text) {
    trace::Name name{};
    name.name = ++last;
    name.length = static_cast<uint32_t>(text.size());
    out->Add(Kind::kName, 0, name, text);
    number_of.emplace(text, last);
  };
  for (size_t i = 1; i < trace.names.size(); ++i)
    define(trace.names[i]);
  std::vector<uint32_t> of_calls;
  for (const TracedNcclCall& row : trace.nccl_calls) {
    if (!number_of.contains(row.creation.name))
      define(row.creation.name);
    of_calls.push_back(number_of.at(row.creation.name));
  }
  return of_calls;
}

}  // namespace

absl::Status EncodeTrace(const RankTrace& trace, bool compress,
                         const std::function<absl::Status(std::string_view)>& put) {
  ChunkMaker out(compress, put);
  const std::string session = SerializeSession(trace.session);
  trace::Session record{};
  record.length = static_cast<uint32_t>(session.size());
  out.Add(Kind::kSession, 0, record, session);
  const std::vector<uint32_t> creation_names = AddNames(trace, &out);
  AddCalls(trace, &out);
  AddWork(trace, &out);
  AddEdges(trace, &out);
  AddMemory(trace, &out);
  AddRanges(trace, &out);
  AddOperations(trace, &out);
  AddGraphs(trace, &out);
  AddNcclCalls(trace, creation_names, &out);
  AddHostTimes(trace, &out);
  trace::Dropped dropped{};
  dropped.by_cupti = trace.dropped_by_cupti;
  dropped.by_tracer = trace.dropped_by_tracer;
  out.Add(Kind::kDropped, 0, dropped);
  out.Add(Kind::kEnd, trace.complete ? 0 : trace::kCutOff, trace::End{});
  return out.Finish();
}

}  // namespace vrank::graph
