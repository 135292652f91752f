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

bool Tracer::Open(const Options& options) {
  switch (writer_.Open(options.file.c_str())) {
    case TraceWriter::OpenResult::kOpen:
      return true;
    case TraceWriter::OpenResult::kTaken:
      // A helper of a rank that is traced already: that it is not is no failure.
      RawLog(kLibrary, "another process writes %s; this one is not traced",
             options.file.c_str());
      return false;
    case TraceWriter::OpenResult::kExists:
      GiveUp(options, options.file +
                          " has something in it; remove it, or let "
                          "VRANK_TRACE_FILE name another file");
      return false;
    case TraceWriter::OpenResult::kFailed:
      GiveUp(options, "cannot write " + options.file + ": " + strerror(errno));
      return false;
  }
  return false;
}

bool Tracer::Start(const Options& options) {
  std::lock_guard lock(mutex_);
  if (started_ || options.file.empty())
    return on();
  started_ = true;
  required_ = options.required;
  if (!Open(options))
    return false;
  std::string why;
  if (!cupti_.Start(options.cupti, &why)) {
    writer_.Finish(0);
    unlink(options.file.c_str());
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
  if (taken && !required_)
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
