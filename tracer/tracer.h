// The process's tracer: its file, its CUPTI session, its end.
//
// Started once, by the driver (InitializeInjection); ended when the program exits. A
// forked child inherits neither CUPTI nor the writer's thread and is not traced. The
// file is made with the process's first context: of the processes of a rank, some only
// ask how many devices there are, and the virtual GPU has room for one context.
//
// Thread rule: Start and Finish are serialized here; the rest from any thread.

#ifndef VRANK_TRACER_TRACER_H_
#define VRANK_TRACER_TRACER_H_

#include <atomic>
#include <mutex>

#include "tracer/cupti/cupti_session.h"
#include "tracer/options.h"
#include "tracer/record/trace_writer.h"

namespace vrank::tracer {

class Tracer {
 public:
  // The one of the process, which is never destroyed.
  static Tracer& OfProcess();

  // Starts tracing as `options` say; the second call does nothing. True if the process
  // is traced from now on. Where it should be and cannot be, now or when its file is to
  // be made, a line says why, and with options.required the process ends
  // (kExitUntraced).
  bool Start(const Options& options);
  // Writes what is left and closes the file; nothing where tracing is not on.
  void Finish();

  bool on() const { return on_.load(std::memory_order_acquire); }
  // REQUIRES: on(), or was.
  TraceWriter& writer() { return writer_; }
  CuptiSession& cupti() { return cupti_; }

 private:
  void Open();
  void StandDown();

  std::mutex mutex_;  // held by Start and Finish
  bool started_ = false;
  Options options_;
  std::atomic<bool> on_ = false;
  TraceWriter writer_;
  CuptiSession cupti_{&writer_};
};

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_TRACER_H_
