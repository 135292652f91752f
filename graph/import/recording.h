// What a profiler wrote down about one rank, as plain rows: calls of the host, work of
// the device, operators, ranges, collectives. Times are nanoseconds of the recording's
// clock.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_IMPORT_RECORDING_H_
#define VRANK_GRAPH_IMPORT_RECORDING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/schema/op.h"

namespace vrank::graph {

inline constexpr uint32_t kNoRow = ~uint32_t{0};
inline constexpr int64_t kNoCorrelation = -1;

// Each text once.
class NameTable {
 public:
  uint32_t Add(std::string_view text) {
    const auto found = index_.find(text);
    if (found != index_.end())
      return found->second;
    const auto index = static_cast<uint32_t>(texts_.size());
    texts_.push_back(&index_.emplace(std::string(text), index).first->first);
    return index;
  }
  const std::string& operator[](uint32_t index) const { return *texts_[index]; }
  size_t size() const { return texts_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> index_;
  std::vector<const std::string*> texts_;  // keys of index_, which do not move
};

struct Span {
  int64_t begin_ns = 0, end_ns = 0;
};

// A call of the CUDA or HIP runtime or driver.
struct HostCall {
  Span time;
  uint32_t name = 0;
  uint32_t thread = 0;
  int64_t correlation = kNoCorrelation;
};

// A kernel, copy or memset.
struct DeviceWork {
  Span time;
  uint32_t name = 0;
  uint32_t stream = 0;  // place in Recording::streams
  int64_t correlation = kNoCorrelation;
  WorkClass work = WorkClass::kKernel;
  uint32_t communication = kNoRow;  // place in Recording::communications
};

// An operator, annotation or Python function: says what the host was at.
struct HostActivity {
  Span time;
  uint32_t name = 0;
  uint32_t thread = 0;
  bool is_range = false;  // an annotation of the program
};

// Whom a call waited for, where the profiler was asked to record it (cuda_sync).
struct SyncRow {
  enum class Kind : uint8_t { kStream, kContext, kEvent, kStreamWait };
  Kind kind = Kind::kStream;
  int64_t device = 0;
  int64_t stream = -1;          // that was waited for; kStreamWait: that waits
  int64_t awaited_stream = -1;  // kEvent, kStreamWait: of the event
  int64_t record_correlation = kNoCorrelation;  // of the call that recorded it
};

// What PyTorch says about a collective. Texts are empty and numbers negative where it
// says nothing.
struct CommunicationRow {
  Span time;  // of the host's call
  uint32_t thread = 0;
  std::string operation;  // "allreduce", "all_to_allv", "wait", ...
  std::string type;       // "Float", "float", "c10::BFloat16", ...
  int64_t in_elements = -1, out_elements = -1;
  std::string group;  // its name, or another mark that tells groups of one rank apart
  int64_t sequence = -1;  // of the group's collectives
  int64_t group_size = -1;
  int64_t group_start = -1, group_stride = -1;
  std::string group_ranks;  // "[0, 1]"
  // Of a send or a receive: its ranks in the world, and places in the group.
  int64_t source = -1, destination = -1, group_place = -1, group_peer = -1;

  bool IsWait() const { return operation == "wait"; }
  bool IsSend() const { return operation.rfind("send", 0) == 0; }
  // A batch of sends and receives of PyTorch 2.15 (ProcessGroupNCCL::batch_op_issue of
  // c10d/nccl2), of which only sums of sizes are recorded.
  bool IsBatch() const { return operation == "batch_op_issue"; }
  bool IsTransfer() const { return IsSend() || operation.rfind("recv", 0) == 0; }
};

// The allocator's totals of one GPU behind an allocation or a release ("[memory]").
struct MemoryTotal {
  int64_t at_ns = 0;
  int64_t device = 0;
  int64_t allocated_bytes = 0, reserved_bytes = 0;
};

// Whose times a recording of a virtual run has, by what its member "vrank" says
// (virtual_gpu/core/time_sources.h).
struct VirtualTimes {
  std::map<std::string, std::set<Source>, std::less<>> work;  // by name
  int64_t assumed_host_ns = 0;

  // The worst of what is told; what is not listed, nobody vouches for.
  Source Of(std::string_view name) const {
    const auto found = work.find(name);
    if (found == work.end() || found->second.count(Source::kAssumed) != 0)
      return Source::kAssumed;
    return *found->second.begin();
  }
};

// A group as the profiler's header lists it.
struct ProcessGroup {
  std::string name;
  int64_t size = -1;           // negative: not stated
  std::vector<int32_t> ranks;  // may be empty
};

struct Recording {
  std::string file;
  int64_t rank = -1, world_size = -1;  // negative: not stated
  int64_t pid = -1;                    // of the calls' process
  std::string gpu;
  std::vector<ProcessGroup> groups;
  std::optional<VirtualTimes> virtual_times;  // nothing: it was recorded on a GPU

  // Who vouches for how long the work takes.
  Source SourceOf(const DeviceWork& row) const {
    if (!virtual_times)
      return Source::kRecorded;
    switch (row.work) {
      case WorkClass::kCopy:
        return virtual_times->Of("Memcpy");
      case WorkClass::kMemset:
        return virtual_times->Of("Memset");
      default:
        return virtual_times->Of(names[row.name]);
    }
  }

  NameTable names;
  std::vector<std::pair<int64_t, int64_t>> threads;  // (process, thread)
  std::vector<std::pair<int64_t, int64_t>> streams;  // (device, stream)
  std::vector<HostCall> calls;                       // by begin
  std::vector<DeviceWork> works;                     // by begin
  std::vector<HostActivity> activities;              // by begin, outer before inner
  std::map<int64_t, SyncRow> syncs;                  // by correlation
  std::vector<CommunicationRow> communications;      // by begin
  std::vector<MemoryTotal> memory;                   // by time
  std::map<std::string, uint64_t> unread;            // events of unknown categories
  uint64_t events = 0, bytes = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_RECORDING_H_
