// Writes a raw .vtrace file without holding up the threads that have something to say.
//
// Every thread fills chunks of its own. A full one goes to a thread of the writer's,
// which alone touches the disk: handing over is a pointer under a lock that nobody
// holds while writing. A disk that cannot keep up costs records, not time: beyond
// kMaxChunks chunks on the way, records are dropped and counted. A disk that fails
// costs the rest of the file, and one message.
//
// The writer's thread is no thread of the program: it is made by the C library itself,
// past whatever interposes pthread_create, waits in read(2) without a timeout and looks
// at no clock, so that it shows up in nobody's timeline.
//
// Thread rule: Append, Name and Flush from any thread; Start, Open and Finish one after
// the other.

#ifndef VRANK_TRACER_RECORD_TRACE_WRITER_H_
#define VRANK_TRACER_RECORD_TRACE_WRITER_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tracer/record/chunk.h"

namespace vrank::tracer {

// Chunks that may be filled or on their way at a time: 64 MiB.
inline constexpr int kMaxChunks = 256;

class TraceWriter {
 public:
  TraceWriter();
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  enum class OpenResult {
    kOpen,
    kTaken,   // another process is writing this file
    kExists,  // there is a file with something in it
    kFailed,  // errno says why
  };
  // Makes the writer's thread; records are kept from now on, and nothing is written
  // before Open. False: errno says why.
  bool Start();
  // Makes the file; starts where Start did not. Takes no lock of the loader's or the
  // program's after a Start. Where it does not open, nothing is recorded any more.
  OpenResult Open(const char* path);

  // Adds one record of type T; `record.kind`, `flags` and the fields are the caller's,
  // `record.size` is set here. `tail_bytes` at `tail` follow, padded to 8.
  template <typename T>
  void Append(trace::Source source, const T& record, const void* tail = nullptr,
              size_t tail_bytes = 0) {
    AppendBytes(source, &record, sizeof record, tail, tail_bytes);
  }

  // The number of a name, which is defined at its first use. Cut off at 64 KiB.
  uint32_t Name(std::string_view name);

  // Hands over what all threads have filled so far.
  void Flush();

  // Flush, then the end of the file: `cupti_dropped` are the records that CUPTI lost,
  // `flags` those of trace::End. Returns once all is written. Nothing is recorded from
  // here on.
  void Finish(uint64_t cupti_dropped, uint16_t flags = 0);

  // After a fork, in the child: nothing is recorded, no lock is taken any more.
  void StandDown() { on_.store(false, std::memory_order_relaxed); }

  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct ThreadChunks;  // what one thread is filling
  struct ThreadSlot;    // how a thread finds its own

  void AppendBytes(trace::Source source, const void* record, size_t size,
                   const void* tail, size_t tail_bytes);
  ThreadChunks* Mine();
  Chunk* NewChunk(trace::Source source);
  void HandOver(Chunk* chunk);
  void Wake();
  void Run();  // the writer's thread
  static void* RunThread(void* self);
  void WriteChunk(Chunk* chunk);
  bool WriteAll(const void* bytes, size_t size);

  const uint64_t serial_;  // tells writers apart in thread-local storage
  std::atomic<bool> on_ = false;
  std::atomic<uint64_t> dropped_ = 0;

  std::mutex mutex_;  // guards the lists
  Chunk* full_first_ = nullptr;
  Chunk* full_last_ = nullptr;
  Chunk* free_ = nullptr;
  int chunks_ = 0;  // in existence
  bool finishing_ = false;
  bool open_ = false;  // there is a file
  int wake_ = -1;      // eventfd: the writer's thread has something to do
  ThreadChunks* threads_ = nullptr;

  std::mutex names_mutex_;
  std::unordered_map<std::string, uint32_t> names_;

  // The writer's thread alone, between Open and Finish.
  int file_ = -1;
  uint32_t sequence_ = 0;
  bool failed_ = false;
  std::string path_;
  pthread_t thread_{};
};

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_RECORD_TRACE_WRITER_H_
