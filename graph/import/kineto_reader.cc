#include "graph/import/kineto_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/import/decimal_time.h"
#include "graph/import/json_reading.h"
#include "graph/import/kineto_handler.h"

namespace vrank::graph {
namespace {

enum class Category : uint8_t {
  kOther,
  kCall,
  kKernel,
  kCopy,
  kMemset,
  kOperator,
  kRange,
  kSync,
  kKnown,  // and not needed
};

// Kineto's names (ActivityType.cpp), and those of its first versions.
Category CategoryOf(const std::string& name) {
  struct Row {
    const char* name;
    Category category;
  };
  static constexpr Row kRows[] = {
      {"cpu_op", Category::kOperator},
      {"cuda_runtime", Category::kCall},
      {"kernel", Category::kKernel},
      {"python_function", Category::kOperator},
      {"user_annotation", Category::kRange},
      {"gpu_memcpy", Category::kCopy},
      {"gpu_memset", Category::kMemset},
      {"cuda_sync", Category::kSync},
      {"cuda_driver", Category::kCall},
      {"Operator", Category::kOperator},
      {"Runtime", Category::kCall},
      {"Kernel", Category::kKernel},
      {"Memcpy", Category::kCopy},
      {"Memset", Category::kMemset},
      {"privateuse1_runtime", Category::kOther},
      {"ac2g", Category::kKnown},
      {"async_cpu_to_gpu", Category::kKnown},
      {"fwdbwd", Category::kKnown},
      {"Trace", Category::kKnown},
      {"gpu_user_annotation", Category::kKnown},
      {"overhead", Category::kKnown},
  };
  for (const Row& row : kRows)
    if (name == row.name)
      return row.category;
  return Category::kOther;
}

constexpr char kParams[] = "record_param_comms";
constexpr char kAnnotation[] = "nccl:";
constexpr char kMemory[] = "[memory]";

// Puts events into a recording's rows.
class RowMaker {
 public:
  explicit RowMaker(Recording* out) : out_(out) {}

  // A text is an error.
  std::string Add(const TraceEvent& event) {
    if (event[Field::kPhase] == "i" && event[Field::kName] == kMemory) {
      AddMemory(event);
      return {};
    }
    if (event[Field::kPhase] != "X")
      return {};
    const Category category = CategoryOf(event[Field::kCategory]);
    if (category == Category::kKnown)
      return {};
    if (category == Category::kOther) {
      if (out_->unread.size() < kMostCategories)
        ++out_->unread[event[Field::kCategory]];
      return {};
    }
    Span time;
    if (std::string error = ReadTime(event, &time); !error.empty())
      return error;
    if (out_->threads.size() > kMostLanes || out_->streams.size() > kMostLanes)
      return fmt::format("there are more than {} threads or streams", kMostLanes);
    switch (category) {
      case Category::kCall:
        AddCall(event, time);
        break;
      case Category::kKernel:
      case Category::kCopy:
      case Category::kMemset:
        AddWork(event, time, category);
        break;
      case Category::kOperator:
      case Category::kRange:
        AddActivity(event, time, category == Category::kRange);
        break;
      default:
        AddSync(event);
    }
    return {};
  }

  // The group of a call inside of record_param_comms, whose inputs state it
  // (PyTorch 2.1 and newer, with shapes) where the profiler does not.
  void JoinParams() {
    std::stable_sort(params_.begin(), params_.end(), [](const auto& a, const auto& b) {
      return a.time.begin_ns < b.time.begin_ns;
    });
    for (Communication& row : out_->communications) {
      if (row.thread == kNoRow || row.group_size >= 0)
        continue;
      auto around = std::upper_bound(
          params_.begin(), params_.end(), row.time.begin_ns,
          [](int64_t at_ns, const Params& one) { return at_ns < one.time.begin_ns; });
      // Calls do not nest deeply, and threads are few.
      constexpr int kLookedAt = 64;
      for (int i = 0; i < kLookedAt && around != params_.begin(); ++i) {
        --around;
        if (around->thread != row.thread || around->time.end_ns < row.time.end_ns)
          continue;
        row.group_size = around->size;
        row.group_start = around->start;
        row.group_stride = around->stride;
        break;
      }
    }
  }

 private:
  static constexpr size_t kMostCategories = 64;
  static constexpr size_t kMostLanes = 4096;

  static std::string ReadTime(const TraceEvent& event, Span* time) {
    constexpr int64_t kLongest = int64_t{30} * 86'400 * 1'000'000'000;  // 30 days
    const auto begin = ParseMicroseconds(event[Field::kTime]);
    const auto length = ParseMicroseconds(event[Field::kDuration]);
    if (!begin || *begin < 0)
      return fmt::format("'{}' begins at '{}', which is no time in microseconds",
                         event[Field::kName], event[Field::kTime]);
    if (!length || *length > kLongest)
      return fmt::format("'{}' takes '{}', which is no time of a step in microseconds",
                         event[Field::kName], event[Field::kDuration]);
    if (*length < 0)
      return fmt::format("'{}' takes {} us: a negative duration", event[Field::kName],
                         event[Field::kDuration]);
    *time = {*begin, *begin + *length};
    return {};
  }

  uint32_t Thread(const TraceEvent& event) {
    const std::pair<int64_t, int64_t> id{event.Integer(Field::kProcess).value_or(-1),
                                         event.Integer(Field::kThread).value_or(-1)};
    return Place(id, &out_->threads);
  }

  // A handful of threads and streams: found by looking.
  static uint32_t Place(const std::pair<int64_t, int64_t>& id,
                        std::vector<std::pair<int64_t, int64_t>>* rows) {
    const auto place = std::find(rows->begin(), rows->end(), id) - rows->begin();
    if (place == static_cast<std::ptrdiff_t>(rows->size()))
      rows->push_back(id);
    return static_cast<uint32_t>(place);
  }

  void AddCall(const TraceEvent& event, const Span& time) {
    HostCall call;
    call.time = time;
    call.name = out_->names.Add(event[Field::kName]);
    call.thread = Thread(event);
    call.correlation = event.Integer(Field::kCorrelation).value_or(kNoCorrelation);
    if (out_->pid < 0)
      out_->pid = out_->threads[call.thread].first;
    out_->calls.push_back(call);
  }

  void AddWork(const TraceEvent& event, const Span& time, Category category) {
    DeviceWork work;
    work.time = time;
    work.name = out_->names.Add(event[Field::kName]);
    const int64_t thread = event.Integer(Field::kThread).value_or(0);
    const int64_t process = event.Integer(Field::kProcess).value_or(0);
    work.stream = Place({event.Integer(Field::kDevice).value_or(process),
                         event.Integer(Field::kStream).value_or(thread)},
                        &out_->streams);
    work.correlation = event.Integer(Field::kCorrelation).value_or(kNoCorrelation);
    work.work = category == Category::kKernel ? WorkClass::kKernel
                : category == Category::kCopy ? WorkClass::kCopy
                                              : WorkClass::kMemset;
    if (event.Has(Field::kCollective)) {
      work.communication = static_cast<uint32_t>(out_->communications.size());
      out_->communications.push_back(CommunicationOf(event, time, kNoRow));
    }
    out_->works.push_back(work);
  }

  void AddActivity(const TraceEvent& event, const Span& time, bool is_range) {
    HostActivity activity;
    activity.time = time;
    activity.name = out_->names.Add(event[Field::kName]);
    activity.thread = Thread(event);
    activity.is_range = is_range;
    out_->activities.push_back(activity);
    const std::string& name = event[Field::kName];
    const bool params = name == kParams && event.Has(Field::kCollective);
    if (params || name.compare(0, sizeof kAnnotation - 1, kAnnotation) == 0)
      out_->communications.push_back(CommunicationOf(event, time, activity.thread));
    if (const auto size = event.Integer(Field::kConcreteSize); name == kParams && size)
      params_.push_back({time, activity.thread,
                         event.Integer(Field::kConcreteStart).value_or(-1),
                         event.Integer(Field::kConcreteStride).value_or(-1), *size});
  }

  static Communication CommunicationOf(const TraceEvent& event, const Span& time,
                                       uint32_t thread) {
    Communication made;
    made.time = time;
    made.thread = thread;
    if (event.Has(Field::kCollective)) {
      made.operation = event[Field::kCollective];
      made.type = event[Field::kElementType];
      made.in_elements = event.Integer(Field::kInElements).value_or(-1);
      made.out_elements = event.Integer(Field::kOutElements).value_or(-1);
      made.group_peer = event.Integer(Field::kGroupPeer).value_or(-1);
    } else {
      made.operation = event[Field::kName].substr(sizeof kAnnotation - 1);
      ReadPlaces(made.operation, &made);
      made.type = event[Field::kInputType];
      made.in_elements = event.Integer(Field::kInputDims).value_or(-1);
    }
    made.group = event[Field::kGroupName];
    made.sequence = event.Integer(Field::kSequence).value_or(-1);
    made.group_size = event.Integer(Field::kGroupSize).value_or(-1);
    made.group_start = event.Integer(Field::kGroupStart).value_or(-1);
    made.group_stride = event.Integer(Field::kGroupStride).value_or(-1);
    made.group_ranks = event[Field::kGroupRanks];
    made.source = event.Integer(Field::kSourceRank).value_or(-1);
    made.destination = event.Integer(Field::kDestinationRank).value_or(-1);
    return made;
  }

  // "send 0->1" and "recv 0<-1": of 0, with 1.
  static void ReadPlaces(const std::string& annotation, Communication* made) {
    const char* const end = annotation.data() + annotation.size();
    const char* const own = std::find(annotation.data(), end, ' ') + 1;
    if (own >= end)
      return;
    int64_t place = -1, peer = -1;
    const auto first = std::from_chars(own, end, place);
    if (first.ec != std::errc() || end - first.ptr < 3)
      return;
    const std::string_view arrow(first.ptr, 2);
    if (arrow != "->" && arrow != "<-")
      return;
    if (std::from_chars(first.ptr + 2, end, peer).ec == std::errc()) {
      made->group_place = place;
      made->group_peer = peer;
    }
  }

  void AddSync(const TraceEvent& event) {
    SyncRow row;
    const std::string& kind = event[Field::kSyncKind];
    if (kind == "Stream Sync") {
      row.kind = SyncRow::Kind::kStream;
    } else if (kind == "Context Sync") {
      row.kind = SyncRow::Kind::kContext;
    } else if (kind == "Event Sync") {
      row.kind = SyncRow::Kind::kEvent;
    } else if (kind == "Stream Wait Event") {
      row.kind = SyncRow::Kind::kStreamWait;
    } else {
      ++out_->unread["cuda_sync " + kind.substr(0, 40)];
      return;
    }
    row.device = event.Integer(Field::kDevice).value_or(0);
    row.stream = event.Integer(Field::kStream).value_or(-1);
    row.awaited_stream = event.Integer(Field::kAwaitedStream).value_or(-1);
    row.record_correlation =
        event.Integer(Field::kRecordCorrelation).value_or(kNoCorrelation);
    const auto correlation = event.Integer(Field::kCorrelation);
    if (correlation)
      out_->syncs[*correlation] = row;
  }

  // Totals of a GPU alone (c10::DeviceType: 0 is the CPU). Profilers of PyTorch before
  // 1.13 write none.
  void AddMemory(const TraceEvent& event) {
    const auto at_ns = ParseMicroseconds(event[Field::kTime]);
    const auto allocated = event.Integer(Field::kTotalAllocated);
    const auto reserved = event.Integer(Field::kTotalReserved);
    constexpr int64_t kMost = int64_t{1} << 50;  // bytes; of no GPU
    const auto is_total = [](const std::optional<int64_t>& bytes) {
      return bytes && *bytes >= 0 && *bytes <= kMost;
    };
    if (event.Integer(Field::kDeviceType).value_or(0) == 0)
      return;
    if (at_ns && *at_ns >= 0 && is_total(allocated) && is_total(reserved))
      out_->memory.push_back(
          {*at_ns, event.Integer(Field::kDeviceId).value_or(0), *allocated, *reserved});
    else
      ++out_->unread[kMemory];
  }

  struct Params {
    Span time;
    uint32_t thread = 0;
    int64_t start = -1, stride = -1, size = -1;
  };

  Recording* const out_;
  std::vector<Params> params_;
};

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
  for (Communication& row : recording->communications) {
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

}  // namespace

absl::StatusOr<Recording> ReadKineto(const std::string& path) {
  Recording recording;
  recording.file = path;
  RowMaker rows(&recording);
  const std::string subject = fmt::format("recording '{}'", path);
  auto source = JsonSource::Open(path);
  if (!source.ok())
    return absl::NotFoundError(
        fmt::format("{}: {}", subject, std::string(source.status().message())));
  KinetoHandler handler(&*source,
                        [&rows](const TraceEvent& event) { return rows.Add(event); });
  RETURN_IF_ERROR(ReadJson(subject, &*source, &handler));
  if (!handler.header().has_events)
    return absl::InvalidArgumentError(fmt::format(
        "{}: there is no list \"traceEvents\"; give a trace that torch.profiler's "
        "export_chrome_trace wrote",
        subject));
  constexpr int64_t kLatestBase = int64_t{4} * 1'000'000'000 * 1'000'000'000;
  if (handler.header().base_ns < 0 || handler.header().base_ns > kLatestBase)
    return absl::InvalidArgumentError(
        fmt::format("{}: baseTimeNanoseconds is {}, which is no time of a recording",
                    subject, handler.header().base_ns));
  recording.events = handler.events();
  recording.bytes = source->Tell();
  rows.JoinParams();
  Finish(handler.header(), &recording);
  RETURN_IF_ERROR(CheckLength(subject, recording));
  return recording;
}

}  // namespace vrank::graph
