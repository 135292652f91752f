// Sort, then number.

#include "graph/trace/canonical_order.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "graph/trace/row_joiner.h"

namespace vrank::graph {
namespace {

// A device gives its memory away in blocks of that size; which allocations share one
// is kept.
constexpr uint64_t kBlock = uint64_t{2} << 20;
// Device memory begins here: so that no address is 0.
constexpr uint64_t kFirstAddress = kBlock;

template <typename Row, typename KeyFunction>
void SortBy(std::vector<Row>* rows, KeyFunction key) {
  std::stable_sort(rows->begin(), rows->end(),
                   [&](const Row& a, const Row& b) { return key(a) < key(b); });
}

void SortCalls(RankTrace* trace) {
  SortBy(&trace->calls, [](const TracedCall& row) {
    return std::tuple(row.start_ns, row.correlation, row.end_ns);
  });
}

// All but calls, once threads are numbered.
void SortRows(RankTrace* trace) {
  SortBy(&trace->work, [](const TracedWork& row) {
    return std::tuple(row.correlation, row.graph_node, row.start_ns, row.stream,
                      row.end_ns);
  });
  SortBy(&trace->syncs, [](const TracedSync& row) {
    return std::tuple(row.correlation, row.start_ns, row.kind, row.stream,
                      row.event_sync_id, row.event);
  });
  SortBy(&trace->event_records, [](const TracedEventRecord& row) {
    return std::tuple(row.correlation, row.event_sync_id, row.event);
  });
  SortBy(&trace->streams, [](const TracedStream& row) {
    return std::tuple(row.correlation, row.destroyed, row.context, row.stream);
  });
  SortBy(&trace->memory, [](const TracedMemory& row) {
    return std::tuple(row.time_ns, row.correlation, !row.release, row.address);
  });
  SortBy(&trace->reserves, [](const TracedReserve& row) {
    return std::tuple(row.time_ns, row.correlation, row.owner, row.communicator,
                      row.delta_bytes);
  });
  // Ranges of one thread at one time stay as they came.
  SortBy(&trace->ranges,
         [](const TracedRange& row) { return std::tuple(row.time_ns, row.thread); });
  SortBy(&trace->overheads, [](const TracedOverhead& row) {
    return std::tuple(row.start_ns, row.correlation, row.end_ns, row.kind);
  });
  SortBy(&trace->operations, [](const TracedOperation& row) {
    return std::tuple(row.correlation, row.captured, row.communicator);
  });
  // Calls of one thread at one time stay as they came: a release costs no host time.
  SortBy(&trace->nccl_calls, [](const TracedNcclCall& row) {
    return std::tuple(row.start_ns, row.end_ns, row.thread);
  });
}

// Gives out numbers in the order of asking.
template <typename Number>
class Numbering {
 public:
  explicit Numbering(Number first) : next_(first) {}
  Number Of(Number old) {
    const auto [found, fresh] = numbers_.try_emplace(old, next_);
    next_ += fresh ? 1 : 0;
    return found->second;
  }
  bool Has(Number old) const { return numbers_.contains(old); }

 private:
  Number next_;
  std::unordered_map<Number, Number> numbers_;
};

void NumberThreads(RankTrace* trace) {
  Numbering<uint32_t> threads(0);
  const auto number = [&](auto& rows) {
    for (auto& row : rows)
      row.thread = threads.Of(row.thread);
  };
  number(trace->calls);
  SortBy(&trace->ranges, [](const TracedRange& row) { return row.time_ns; });
  number(trace->ranges);
  number(trace->nccl_calls);
  number(trace->overheads);
}

void NumberRanges(std::vector<TracedRange>* ranges) {
  Numbering<uint32_t> ids(1);
  for (TracedRange& range : *ranges)
    range.id = ids.Of(range.id);
}

// A context and its stream may both tell of the stream. The stream's own record says
// which call was the first to use it.
void DropRepeatedLegacyStreams(std::vector<TracedStream>* streams) {
  std::set<std::pair<uint32_t, uint32_t>> seen, used;
  for (const TracedStream& row : *streams)
    if (row.kind == TracedStream::Kind::kLegacyDefault && !row.destroyed &&
        row.correlation != 0)
      used.emplace(row.context, row.stream);
  std::erase_if(*streams, [&](const TracedStream& row) {
    return row.kind == TracedStream::Kind::kLegacyDefault && !row.destroyed &&
           row.correlation == 0 && used.contains({row.context, row.stream});
  });
  std::erase_if(*streams, [&](const TracedStream& row) {
    return row.kind == TracedStream::Kind::kLegacyDefault && !row.destroyed &&
           !seen.emplace(row.context, row.stream).second;
  });
}

// By their first launch; what is never launched means nothing, and goes.
void NumberGraphs(RankTrace* trace) {
  Numbering<uint32_t> graphs(1);
  SortBy(&trace->graph_launches,
         [](const TracedGraphLaunch& row) { return row.correlation; });
  for (TracedGraphLaunch& row : trace->graph_launches)
    row.graph = graphs.Of(row.graph);
  const auto keep_launched = [&](auto& rows) {
    std::erase_if(rows, [&](const auto& row) { return !graphs.Has(row.graph); });
    for (auto& row : rows)
      row.graph = graphs.Of(row.graph);
  };
  keep_launched(trace->graph_nodes);
  keep_launched(trace->graph_changes);
  SortBy(&trace->graph_changes, [](const TracedGraphChange& row) {
    return std::tuple(row.correlation, row.graph, row.ended);
  });
  SortBy(&trace->graph_nodes,
         [](const TracedGraphNode& row) { return std::pair(row.graph, row.index); });
  Numbering<uint64_t> nodes(1), operations(1);
  for (TracedGraphNode& row : trace->graph_nodes) {
    row.node = nodes.Of(row.node);
    for (uint64_t& operation : row.operations)
      operation = operations.Of(operation);
  }
  SortBy(&trace->work, [](const TracedWork& row) {
    return std::pair(row.correlation, row.graph_node);
  });
  for (TracedWork& row : trace->work)
    row.graph_node = row.graph_node == 0 ? 0 : nodes.Of(row.graph_node);
  std::erase_if(trace->operations, [&](const TracedOperation& row) {
    return row.captured != 0 && !operations.Has(row.captured);
  });
  for (TracedOperation& row : trace->operations)
    row.captured = row.captured == 0 ? 0 : operations.Of(row.captured);
}

void NumberNames(RankTrace* trace) {
  std::vector<std::string> names{std::string()};
  std::unordered_map<uint32_t, uint32_t> index_of{{0, 0}};
  ForEachName(trace, [&](uint32_t* name) {
    const auto [found, fresh] =
        index_of.try_emplace(*name, static_cast<uint32_t>(names.size()));
    if (fresh)
      names.push_back(trace->names[*name]);
    *name = found->second;
  });
  // Names of communicators stand in the same table of a file.
  for (const TracedNcclCall& call : trace->nccl_calls)
    if (std::find(names.begin(), names.end(), call.creation.name) == names.end())
      names.push_back(call.creation.name);
  trace->names = std::move(names);
}

void NumberAddresses(std::vector<TracedMemory>* memory) {
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  for (const TracedMemory& row : *memory)
    if (row.device)
      lowest = std::min(lowest, row.address);
  lowest -= lowest % kBlock;
  uint64_t allocations = 0;
  std::unordered_map<uint64_t, uint64_t> host;  // address -> number
  for (TracedMemory& row : *memory) {
    if (row.device)
      row.address = row.address - lowest + kFirstAddress;
    else if (!row.release)
      row.address = host[row.address] = ++allocations;
    else if (const auto found = host.find(row.address); found != host.end())
      row.address = found->second;
    else
      row.address = 0;  // taken before the trace began
  }
}

}  // namespace

void PutInOrder(RankTrace* trace) {
  SortCalls(trace);
  NumberThreads(trace);
  NumberGraphs(trace);
  SortRows(trace);
  DropRepeatedLegacyStreams(&trace->streams);
  NumberRanges(&trace->ranges);
  NumberNames(trace);
  NumberAddresses(&trace->memory);
}

void MoveTimes(std::optional<int64_t> origin_ns, RankTrace* trace) {
  const auto for_each = [&](auto visit) {
    const auto spans = [&](auto& rows) {
      for (auto& row : rows) {
        visit(&row.start_ns);
        visit(&row.end_ns);
      }
    };
    const auto points = [&](auto& rows) {
      for (auto& row : rows)
        visit(&row.time_ns);
    };
    spans(trace->calls);
    spans(trace->work);
    spans(trace->syncs);
    spans(trace->overheads);
    spans(trace->nccl_calls);
    points(trace->contexts);
    points(trace->memory);
    points(trace->reserves);
    points(trace->ranges);
  };
  int64_t origin = origin_ns.value_or(std::numeric_limits<int64_t>::max());
  if (!origin_ns.has_value())
    for_each([&](int64_t* time) {
      if (*time > 0)
        origin = std::min(origin, *time);
    });
  for_each([&](int64_t* time) { *time -= *time > 0 ? origin : 0; });
}

}  // namespace vrank::graph
