// Start, finish, fork.

#include "tracer/tracer.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/guest/raw_log.h"

namespace vrank::tracer {
namespace {

constexpr char kLibrary[] = "tracer";

// What it means that tracing cannot start: the run goes on without, or ends.
void GiveUp(const Options& options, const std::string& why) {
  RawLog(kLibrary, "not tracing: %s%s", why.c_str(),
         options.required ? "; the run ends, since VRANK_TRACE_REQUIRED is set" : "");
  if (options.required)
    _exit(kExitUntraced);
}

}  // namespace

Tracer& Tracer::OfProcess() {
  static Tracer* const tracer = new Tracer;
  return *tracer;
}

// In a callback of CUPTI.
void Tracer::Open() {
  const std::string& file = options_.file;
  const TraceWriter::OpenResult result = writer_.Open(file.c_str());
  if (result == TraceWriter::OpenResult::kOpen)
    return;
  const int error = errno;
  StandDown();
  switch (result) {
    case TraceWriter::OpenResult::kTaken:
      // A helper of a rank that is traced already: that it is not is no failure.
      RawLog(kLibrary, "another process writes %s; this one is not traced",
             file.c_str());
      return;
    case TraceWriter::OpenResult::kExists:
      GiveUp(options_, file +
                           " has something in it, of another process or an earlier "
                           "run; trace one process of a rank, into a new file");
      return;
    default:
      GiveUp(options_, "cannot write " + file + ": " + strerror(error));
  }
}

bool Tracer::Start(const Options& options) {
  std::lock_guard lock(mutex_);
  if (started_ || options.file.empty())
    return on();
  started_ = true;
  options_ = options;
  if (!writer_.Start()) {
    GiveUp(options, std::string("cannot start a thread: ") + strerror(errno));
    return false;
  }
  std::string why;
  cupti_.TellOfFirstContext([this] { Open(); });
  if (!cupti_.Start(options.cupti, &why)) {
    writer_.Finish(0);
    GiveUp(options, why);
    return false;
  }
  on_.store(true, std::memory_order_release);
  pthread_atfork(nullptr, nullptr, [] { OfProcess().StandDown(); });
  const auto finish = [] { OfProcess().Finish(); };
  atexit(finish);
  at_quick_exit(finish);
  return true;
}

void Tracer::Finish() {
  std::lock_guard lock(mutex_);
  if (!on())
    return;
  cupti_.Stop();
  on_.store(false, std::memory_order_release);
  const bool taken = cupti_.records_taken();
  // Where the trace is required, who requires it reads this in the file.
  if (taken && !options_.required)
    RawLog(
        kLibrary,
        "the trace is incomplete: the program, or a library of it, uses CUPTI itself "
        "(a profiler?), which gave the records to that; run it without its profiler");
  writer_.Finish(cupti_.dropped(), taken ? trace::kRecordsTaken : 0);
}

void Tracer::StandDown() {
  on_.store(false, std::memory_order_release);
  cupti_.StandDown();
  writer_.StandDown();
}

}  // namespace vrank::tracer
