#include "graph/import/kineto_rows.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "graph/import/decimal_time.h"

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
Category CategoryOf(std::string_view name) {
  struct Row {
    std::string_view name;
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

std::string ReadTime(const TraceEvent& event, Span* time) {
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

// "send 0->1" and "recv 0<-1": of 0, with 1.
void ReadPlaces(const std::string& annotation, CommunicationRow* made) {
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

CommunicationRow CommunicationOf(const TraceEvent& event, const Span& time,
                                 uint32_t thread) {
  CommunicationRow made;
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

}  // namespace

std::string KinetoRows::Add(const TraceEvent& event) {
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
    if (out_.unread.size() < kMostCategories)
      ++out_.unread[event[Field::kCategory]];
    return {};
  }
  Span time;
  if (std::string error = ReadTime(event, &time); !error.empty())
    return error;
  if (out_.threads.size() > kMostLanes || out_.streams.size() > kMostLanes)
    return fmt::format("there are more than {} threads or streams", kMostLanes);
  switch (category) {
    case Category::kCall:
      AddCall(event, time);
      break;
    case Category::kKernel:
      AddWork(event, time, WorkClass::kKernel);
      break;
    case Category::kCopy:
      AddWork(event, time, WorkClass::kCopy);
      break;
    case Category::kMemset:
      AddWork(event, time, WorkClass::kMemset);
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

bool KinetoRows::Append(KinetoRows* part) {
  Recording& more = part->out_;
  // Add stops there.
  if (out_.unread.size() + more.unread.size() >= kMostCategories)
    return false;
  std::vector<uint32_t> names, threads, streams;
  for (size_t i = 0; i < more.names.size(); ++i)
    names.push_back(out_.names.Add(more.names[static_cast<uint32_t>(i)]));
  for (const auto& id : more.threads)
    threads.push_back(Place(id, &out_.threads));
  for (const auto& id : more.streams)
    streams.push_back(Place(id, &out_.streams));
  if (out_.threads.size() > kMostLanes || out_.streams.size() > kMostLanes)
    return false;
  if (out_.pid < 0 && !more.calls.empty())
    out_.pid = more.pid;
  for (HostCall& call : more.calls) {
    call.name = names[call.name];
    call.thread = threads[call.thread];
    out_.calls.push_back(call);
  }
  for (DeviceWork& work : more.works) {
    work.name = names[work.name];
    work.stream = streams[work.stream];
    if (work.communication != kNoRow)
      work.communication += static_cast<uint32_t>(out_.communications.size());
    out_.works.push_back(work);
  }
  for (HostActivity& activity : more.activities) {
    activity.name = names[activity.name];
    activity.thread = threads[activity.thread];
    out_.activities.push_back(activity);
  }
  for (CommunicationRow& row : more.communications) {
    if (row.thread != kNoRow)
      row.thread = threads[row.thread];
    out_.communications.push_back(std::move(row));
  }
  for (const auto& [correlation, row] : more.syncs)
    out_.syncs[correlation] = row;
  out_.memory.insert(out_.memory.end(), more.memory.begin(), more.memory.end());
  for (const auto& [category, count] : more.unread)
    out_.unread[category] += count;
  for (Params& params : part->params_) {
    params.thread = threads[params.thread];
    params_.push_back(params);
  }
  return true;
}

Recording KinetoRows::Finish() && {
  JoinParams();
  return std::move(out_);
}

uint32_t KinetoRows::Thread(const TraceEvent& event) {
  const std::pair<int64_t, int64_t> id{event.Integer(Field::kProcess).value_or(-1),
                                       event.Integer(Field::kThread).value_or(-1)};
  return Place(id, &out_.threads);
}

// Threads and streams are a handful: a linear search finds them.
uint32_t KinetoRows::Place(const std::pair<int64_t, int64_t>& id,
                           std::vector<std::pair<int64_t, int64_t>>* rows) {
  const auto place = std::find(rows->begin(), rows->end(), id) - rows->begin();
  if (place == static_cast<std::ptrdiff_t>(rows->size()))
    rows->push_back(id);
  return static_cast<uint32_t>(place);
}

void KinetoRows::AddCall(const TraceEvent& event, const Span& time) {
  HostCall call;
  call.time = time;
  call.name = out_.names.Add(event[Field::kName]);
  call.thread = Thread(event);
  call.correlation = event.Integer(Field::kCorrelation).value_or(kNoCorrelation);
  if (out_.pid < 0)
    out_.pid = out_.threads[call.thread].first;
  out_.calls.push_back(call);
}

void KinetoRows::AddWork(const TraceEvent& event, const Span& time,
                         WorkClass work_class) {
  DeviceWork work;
  work.time = time;
  work.name = out_.names.Add(event[Field::kName]);
  const int64_t thread = event.Integer(Field::kThread).value_or(0);
  const int64_t process = event.Integer(Field::kProcess).value_or(0);
  work.stream = Place({event.Integer(Field::kDevice).value_or(process),
                       event.Integer(Field::kStream).value_or(thread)},
                      &out_.streams);
  work.correlation = event.Integer(Field::kCorrelation).value_or(kNoCorrelation);
  work.work = work_class;
  if (event.Has(Field::kCollective)) {
    work.communication = static_cast<uint32_t>(out_.communications.size());
    out_.communications.push_back(CommunicationOf(event, time, kNoRow));
  }
  out_.works.push_back(work);
}

void KinetoRows::AddActivity(const TraceEvent& event, const Span& time, bool is_range) {
  HostActivity activity;
  activity.time = time;
  activity.name = out_.names.Add(event[Field::kName]);
  activity.thread = Thread(event);
  activity.is_range = is_range;
  out_.activities.push_back(activity);
  const std::string& name = event[Field::kName];
  const bool params = name == kParams && event.Has(Field::kCollective);
  if (params || name.compare(0, sizeof kAnnotation - 1, kAnnotation) == 0)
    out_.communications.push_back(CommunicationOf(event, time, activity.thread));
  if (const auto size = event.Integer(Field::kConcreteSize); name == kParams && size)
    params_.push_back({time, activity.thread,
                       event.Integer(Field::kConcreteStart).value_or(-1),
                       event.Integer(Field::kConcreteStride).value_or(-1), *size});
}

void KinetoRows::AddSync(const TraceEvent& event) {
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
    ++out_.unread["cuda_sync " + kind.substr(0, 40)];
    return;
  }
  row.device = event.Integer(Field::kDevice).value_or(0);
  row.stream = event.Integer(Field::kStream).value_or(-1);
  row.awaited_stream = event.Integer(Field::kAwaitedStream).value_or(-1);
  row.record_correlation =
      event.Integer(Field::kRecordCorrelation).value_or(kNoCorrelation);
  const auto correlation = event.Integer(Field::kCorrelation);
  if (correlation)
    out_.syncs[*correlation] = row;
}

// Totals of a GPU alone (c10::DeviceType: 0 is the CPU). Profilers of PyTorch before
// 1.13 write none.
void KinetoRows::AddMemory(const TraceEvent& event) {
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
    out_.memory.push_back(
        {*at_ns, event.Integer(Field::kDeviceId).value_or(0), *allocated, *reserved});
  else
    ++out_.unread[kMemory];
}

void KinetoRows::JoinParams() {
  std::stable_sort(params_.begin(), params_.end(), [](const auto& a, const auto& b) {
    return a.time.begin_ns < b.time.begin_ns;
  });
  for (CommunicationRow& row : out_.communications) {
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

}  // namespace vrank::graph
