#include "virtual_gpu/core/activity_recorder.h"

#include <map>

#include "base/guest/thread_value.h"

namespace vrank::gpu {
namespace {

// How late a note without news from the emulator may be reported (real time).
constexpr Duration kPatience = Duration::Milliseconds(10);
constexpr size_t kEntriesAtOnce = 4096;

struct OpenCall {
  bool is_driver = false;
  const char* function = "";
  const void* parameters = nullptr;
};

// The calls that the thread is in, and what a profiler has pushed on it.
struct ThreadCalls {
  std::vector<OpenCall> open;
  uint32_t correlation = 0;  // of the outermost one
  uint32_t thread = 0;
  std::map<uint32_t, std::vector<uint64_t>> external_ids;  // by kind
};

// This is the reporting thread. Apart from what has a destructor, whose registration
// waits for the loader: somebody may flush in a constructor of a library.
thread_local bool reports = false;

ThreadCalls& Calls() {
  return ThreadValue<ThreadCalls>::Mine();
}

uint32_t ThreadOrdinal() {
  static std::atomic<uint32_t> threads{0};
  thread_local const uint32_t ordinal = threads.fetch_add(1);
  return ordinal;
}

}  // namespace

ActivityRecorder::ActivityRecorder(Channel* channel, std::function<void()> introduce)
    : channel_(channel),
      wire_(channel == nullptr ? nullptr : channel->activity()),
      introduce_(std::move(introduce)) {}

ActivityRecorder::~ActivityRecorder() {
  {
    std::lock_guard lock(report_mutex_);
    stopping_ = true;
  }
  if (!thread_.joinable())
    return;
  wire_->WakeReaders();
  thread_.join();
}

// --- Listening
// ------------------------------------------------------------------------

void ActivityRecorder::Wish(protocol::ActivityWish wish) {
  protocol::Activity record{};
  record.record.kind = protocol::RecordKind::kActivity;
  record.wish = wish;
  record.slot = protocol::kNoSlot;
  channel_->Emit(record);
}

void ActivityRecorder::SetListener(ActivityListener* listener) {
  if (wire_ == nullptr || channel_->detached())
    return;
  {
    std::lock_guard lock(mutex_);
    const bool before = listener_.exchange(listener) != nullptr;
    if (before != (listener != nullptr)) {
      if (claimed_)
        Wish(listener != nullptr ? protocol::ActivityWish::kStart
                                 : protocol::ActivityWish::kStop);
      wire_->SetProfiledGpu(listener != nullptr ? this : nullptr);
    }
    if (listener != nullptr && !thread_.joinable())
      thread_ = std::thread(&ActivityRecorder::Run, this);
    listening_.store(listener != nullptr, std::memory_order_release);
  }
  if (listener != nullptr)
    introduce_();
}

void ActivityRecorder::RankClaimed() {
  std::lock_guard lock(mutex_);
  claimed_ = true;
  if (listener_.load() != nullptr)
    Wish(protocol::ActivityWish::kStart);
}

// --- The program's side
// --------------------------------------------------------------------------

uint32_t ActivityRecorder::Correlation() {
  return Calls().correlation;
}

void ActivityRecorder::NoteLocked(ActivityNote::What what, uint64_t record,
                                  uint64_t last_record) {
  ActivityListener* const listener = listener_.load(std::memory_order_relaxed);
  if (listener == nullptr)
    return;
  notes_.push_back({listener, wire_->Mark(), record, last_record, std::move(what)});
}

void ActivityRecorder::Note(ActivityNote::What what, uint64_t record,
                            uint64_t last_record) {
  if (channel_->detached())
    return;
  std::lock_guard lock(mutex_);
  NoteLocked(std::move(what), record, last_record);
}

void ActivityRecorder::Enter(bool is_driver, const char* function,
                             const void* parameters) {
  ThreadCalls& calls = Calls();
  const bool outermost = calls.open.empty();
  const bool told = outermost || calls.open.back().is_driver != is_driver;
  calls.open.push_back({is_driver, function, parameters});
  if (channel_->detached())
    return;
  if (outermost) {
    calls.thread = ThreadOrdinal();
    std::lock_guard lock(mutex_);
    calls.correlation = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
    NoteLocked(CallBegin{calls.correlation}, 0, 0);
    for (const auto& [kind, ids] : calls.external_ids)
      if (!ids.empty())
        NoteLocked(ActivityExternalId{kind, ids.back(), calls.correlation}, 0, 0);
  }
  ActivityListener* const listener = listener_.load();
  if (told && listener != nullptr)
    listener->OnEnter(is_driver, function, calls.correlation, parameters, nullptr);
}

void ActivityRecorder::Exit(int32_t result) {
  ThreadCalls& calls = Calls();
  const OpenCall call = calls.open.back();
  const bool told = calls.open.size() == 1 ||
                    calls.open[calls.open.size() - 2].is_driver != call.is_driver;
  ActivityListener* const listener = listener_.load();
  if (told && listener != nullptr && !channel_->detached())
    listener->OnExit(call.is_driver, call.function, calls.correlation, call.parameters,
                     nullptr, result);
  calls.open.pop_back();
  if (!calls.open.empty())
    return;
  Note(ActivityCall{.is_driver = call.is_driver,
                    .function = call.function,
                    .correlation = calls.correlation,
                    .thread = calls.thread,
                    .result = result});
  calls.correlation = 0;
  if (wire_ != nullptr && !channel_->detached())
    wire_->SettleLoggedClock();
}

void ActivityRecorder::PushExternalId(uint32_t kind, uint64_t id) {
  Calls().external_ids[kind].push_back(id);
}

bool ActivityRecorder::PopExternalId(uint32_t kind, uint64_t* id) {
  std::vector<uint64_t>& ids = Calls().external_ids[kind];
  if (ids.empty())
    return false;
  if (id != nullptr)
    *id = ids.back();
  ids.pop_back();
  return true;
}

const char* ActivityRecorder::Keep(std::string_view text) {
  return names_.emplace(text).first->c_str();
}

void ActivityRecorder::OnRange(bool begin, uint32_t id, std::string_view name) {
  if (!listening() || channel_->detached())
    return;
  const uint32_t thread = ThreadOrdinal();
  std::lock_guard lock(mutex_);
  NoteLocked(ActivityRange{begin, thread, id, Keep(name), 0}, 0, 0);
}

std::string ActivityRecorder::DescribeTimeSources() {
  Flush(false);
  std::lock_guard lock(report_mutex_);
  return resolver_.sources().Json();
}

void ActivityRecorder::TellStreamNow(const ActivityStream& stream, void* handle) {
  if (ActivityListener* const listener = listener_.load())
    listener->OnStreamNow(stream, handle);
}

void ActivityRecorder::TellContextNow(uint32_t context, void* handle, bool created) {
  if (ActivityListener* const listener = listener_.load())
    listener->OnContextNow(context, handle, created);
}

void ActivityRecorder::TellGraphNow(const ActivityGraph& graph) {
  if (ActivityListener* const listener = listener_.load())
    listener->OnGraphNow(graph);
}

// --- Questions of the profiler
// ------------------------------------------------------------------------

// The host clock at the question's record. Collected like a callback's start: unlike an
// answer to the program it leaves the channel's own view of the clock alone.
int64_t ActivityRecorder::Ask(protocol::ActivityWish wish, HostMark* mark) {
  protocol::Activity record{};
  record.record.kind = protocol::RecordKind::kActivity;
  record.wish = wish;
  const uint32_t slot = channel_->AskLater(record);
  mark->record = wire_->LastRecord();
  mark->pending_ns = wire_->Mark().pending_ns;
  return channel_->Collect(slot).host.nanoseconds();
}

int64_t ActivityRecorder::Now() {
  if (channel_ == nullptr)
    return 0;
  if (wire_ == nullptr || channel_->detached() || channel_->ClockIsLocal())
    return channel_->Now().nanoseconds();
  HostMark mark;
  const int64_t host_ns = Ask(protocol::ActivityWish::kClock, &mark);
  return host_ns + mark.pending_ns;
}

void ActivityRecorder::Flush(bool wait_for_work) {
  if (wire_ == nullptr || channel_->detached() || reports)
    return;
  bool claimed = false;
  {
    std::lock_guard lock(mutex_);
    if (!thread_.joinable())
      return;
    claimed = claimed_;
  }
  HostMark mark = wire_->Mark();
  // The answer comes after all that the emulator had to tell about earlier records: a
  // wait of the program's may end before.
  if (claimed)
    Ask(wait_for_work ? protocol::ActivityWish::kDrain : protocol::ActivityWish::kClock,
        &mark);
  const auto done = [&] {
    return wait_for_work ? resolver_.DoneUntil(mark.record)
                         : resolver_.PassedUntil(mark.record);
  };
  std::lock_guard lock(report_mutex_);
  while (Report() || (claimed && !done() && !channel_->aborting()))
    wire_->Await(/*for_entries=*/true, kPatience);
}

bool ActivityRecorder::MayRead() {
  std::lock_guard lock(mutex_);
  return claimed_;
}

// Reports what is there. Whether there may be more.
bool ActivityRecorder::Report() {
  entries_.resize(kEntriesAtOnce);
  // Entries first: what was noted before they were published is then in the notes.
  const size_t count = MayRead() ? wire_->Read(entries_.data(), entries_.size()) : 0;
  {
    std::lock_guard lock(mutex_);
    taken_.swap(notes_);
  }
  resolver_.Take(&taken_, {entries_.data(), count});
  return count == entries_.size();
}

// --- The reporting thread
// ------------------------------------------------------------------------

void ActivityRecorder::Run() {
  wire_->HideThread();
  reports = true;
  for (;;) {
    wire_->Await(MayRead(), kPatience);
    std::lock_guard lock(report_mutex_);
    Report();
    if (stopping_ || channel_->aborting())
      return;
  }
}

}  // namespace vrank::gpu
