#include "tests/graph/import/recording_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vrank::graph {

std::string RecordingText(const absl::StatusOr<Recording>& recording) {
  if (!recording.ok())
    return recording.status().ToString();
  const Recording& of = *recording;
  std::string text =
      fmt::format("rank {} of {}, process {}, {}, {} events, {} bytes\n", of.rank,
                  of.world_size, of.pid, of.gpu, of.events, of.bytes);
  for (const ProcessGroup& group : of.groups)
    text += fmt::format("group {} {} {}\n", group.name, group.size, group.ranks);
  if (of.virtual_times) {
    text += fmt::format("assumed host {}\n", of.virtual_times->assumed_host_ns);
    for (const auto& [name, sources] : of.virtual_times->work)
      text += fmt::format("virtual {} {}\n", name, sources.size());
  }
  for (uint32_t i = 0; i < of.names.size(); ++i)
    text += fmt::format("name {}\n", of.names[i]);
  text += fmt::format("threads {}\nstreams {}\nunread {}\n", of.threads, of.streams,
                      of.unread);
  for (const HostCall& row : of.calls)
    text += fmt::format("call {} {} {} {} {}\n", row.time.begin_ns, row.time.end_ns,
                        row.name, row.thread, row.correlation);
  for (const DeviceWork& row : of.works)
    text += fmt::format("work {} {} {} {} {} {} {}\n", row.time.begin_ns,
                        row.time.end_ns, row.name, row.stream, row.correlation,
                        static_cast<int>(row.work), row.communication);
  for (const HostActivity& row : of.activities)
    text += fmt::format("activity {} {} {} {} {}\n", row.time.begin_ns, row.time.end_ns,
                        row.name, row.thread, row.is_range);
  for (const auto& [correlation, row] : of.syncs)
    text +=
        fmt::format("sync {} {} {} {} {} {}\n", correlation, static_cast<int>(row.kind),
                    row.device, row.stream, row.awaited_stream, row.record_correlation);
  for (const CommunicationRow& row : of.communications)
    text += fmt::format(
        "communication {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n",
        row.time.begin_ns, row.time.end_ns, row.thread, row.operation, row.type,
        row.in_elements, row.out_elements, row.group, row.sequence, row.group_size,
        row.group_start, row.group_stride, row.group_ranks, row.source, row.destination,
        row.group_place, row.group_peer);
  for (const MemoryTotal& row : of.memory)
    text += fmt::format("memory {} {} {} {}\n", row.at_ns, row.device,
                        row.allocated_bytes, row.reserved_bytes);
  return text;
}

}  // namespace vrank::graph
