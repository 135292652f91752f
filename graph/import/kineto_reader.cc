#include "graph/import/kineto_reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/import/json_reading.h"
#include "graph/import/kineto_handler.h"
#include "graph/import/kineto_rows.h"

namespace vrank::graph {
namespace {

template <class Row>
void ShiftAndSort(int64_t base_ns, std::vector<Row>* rows) {
  for (Row& row : *rows) {
    row.time.begin_ns += base_ns;
    row.time.end_ns += base_ns;
  }
  std::stable_sort(rows->begin(), rows->end(), [](const Row& a, const Row& b) {
    return a.time.begin_ns != b.time.begin_ns ? a.time.begin_ns < b.time.begin_ns
                                              : a.time.end_ns > b.time.end_ns;
  });
}

void Finish(const TraceHeader& header, Recording* recording) {
  recording->rank = header.rank;
  recording->world_size = header.world_size;
  recording->groups = header.groups;
  recording->virtual_times = header.virtual_times;
  if (!recording->streams.empty() && !header.gpus.empty()) {
    const auto device = static_cast<uint64_t>(recording->streams.front().first);
    recording->gpu = header.gpus[device < header.gpus.size() ? device : 0];
  }
  ShiftAndSort(header.base_ns, &recording->calls);
  ShiftAndSort(header.base_ns, &recording->works);
  ShiftAndSort(header.base_ns, &recording->activities);
  for (MemoryTotal& total : recording->memory)
    total.at_ns += header.base_ns;
  std::stable_sort(
      recording->memory.begin(), recording->memory.end(),
      [](const MemoryTotal& a, const MemoryTotal& b) { return a.at_ns < b.at_ns; });
  for (CommunicationRow& row : recording->communications) {
    row.time.begin_ns += header.base_ns;
    row.time.end_ns += header.base_ns;
  }
}

// A recording shows some steps. Times far apart come from damage, and would not fit a
// graph.
absl::Status CheckLength(const std::string& subject, const Recording& recording) {
  constexpr int64_t kLongest = int64_t{60} * 86'400 * 1'000'000'000;  // 60 days
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = 0;
  const auto include = [&](const auto& rows) {
    if (!rows.empty()) {
      first = std::min(first, rows.front().time.begin_ns);
      last = std::max(last, rows.back().time.begin_ns);
    }
  };
  include(recording.calls);
  include(recording.works);
  include(recording.activities);
  if (last > first && last - first > kLongest)
    return absl::InvalidArgumentError(
        fmt::format("{}: its events are {} days apart, so that some of its times are "
                    "wrong; record again",
                    subject, (last - first) / 86'400 / 1'000'000'000));
  return absl::OkStatus();
}

absl::StatusOr<KinetoTrace> ReadStream(const std::string& subject,
                                       const std::string& path) {
  auto source = JsonSource::Open(path);
  if (!source.ok())
    return absl::NotFoundError(
        fmt::format("{}: {}", subject, std::string(source.status().message())));
  KinetoTrace trace;
  KinetoHandler handler(
      &*source, [&trace](const TraceEvent& event) { return trace.rows.Add(event); });
  RETURN_IF_ERROR(ReadJson(subject, &*source, &handler));
  trace.header = std::move(handler.header());
  trace.events = handler.events();
  trace.bytes = source->Tell();
  return trace;
}

}  // namespace

absl::StatusOr<Recording> ReadKineto(const std::string& path, size_t block_bytes) {
  const std::string subject = fmt::format("recording '{}'", path);
  std::optional<KinetoTrace> trace = ReadKinetoInBlocks(path, block_bytes);
  if (!trace) {
    ASSIGN_OR_RETURN(trace, ReadStream(subject, path));
  }
  const TraceHeader& header = trace->header;
  if (!header.has_events)
    return absl::InvalidArgumentError(fmt::format(
        "{}: there is no list \"traceEvents\"; give a trace that torch.profiler's "
        "export_chrome_trace wrote",
        subject));
  constexpr int64_t kLatestBase = int64_t{4} * 1'000'000'000 * 1'000'000'000;
  if (header.base_ns < 0 || header.base_ns > kLatestBase)
    return absl::InvalidArgumentError(
        fmt::format("{}: baseTimeNanoseconds is {}, which is no time of a recording",
                    subject, header.base_ns));
  Recording recording = std::move(trace->rows).Finish();
  recording.file = path;
  recording.events = trace->events;
  recording.bytes = trace->bytes;
  Finish(header, &recording);
  RETURN_IF_ERROR(CheckLength(subject, recording));
  return recording;
}

}  // namespace vrank::graph
