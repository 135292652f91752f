// Threads fill, one thread writes.

#include "tracer/record/trace_writer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "base/guest/crc32c.h"
#include "base/guest/raw_log.h"
#include "base/guest/thread_value.h"

namespace vrank::tracer {
namespace {

constexpr int kSources = 2;  // kProgram, kCupti
constexpr size_t kMaxName = 64 << 10;

std::atomic<uint64_t> next_serial{1};

}  // namespace

// Kept until the writer ends, and taken over by a new thread when its thread has ended.
struct TraceWriter::ThreadChunks {
  std::mutex mutex;  // the thread's own, but for Flush: never contended in practice
  Chunk* chunks[kSources] = {};
  std::atomic<bool> taken = true;
  ThreadChunks* next = nullptr;
};

struct TraceWriter::ThreadSlot {
  uint64_t serial = 0;
  ThreadChunks* chunks = nullptr;
  ~ThreadSlot() { Leave(); }
  void Leave();
};

namespace {

// Serials of writers that still exist: a thread may end after its writer. There is one
// writer per process (tests make a few).
std::mutex living_mutex;
constexpr size_t kMaxLiving = 16;
uint64_t living[kMaxLiving];

}  // namespace

void TraceWriter::ThreadSlot::Leave() {
  if (chunks == nullptr)
    return;
  std::lock_guard lock(living_mutex);
  if (std::find(living, living + kMaxLiving, serial) != living + kMaxLiving)
    chunks->taken.store(false, std::memory_order_release);
}

TraceWriter::TraceWriter() : serial_(next_serial++) {
  std::lock_guard lock(living_mutex);
  *std::find(living, living + kMaxLiving - 1, uint64_t{0}) = serial_;
}

TraceWriter::~TraceWriter() {
  Finish(0);
  {
    std::lock_guard lock(living_mutex);
    std::replace(living, living + kMaxLiving, serial_, uint64_t{0});
  }
  while (threads_ != nullptr) {
    ThreadChunks* next = threads_->next;
    for (Chunk* chunk : threads_->chunks)
      delete chunk;
    delete threads_;
    threads_ = next;
  }
  for (Chunk** list : {&free_, &full_first_}) {
    while (*list != nullptr) {
      Chunk* next = (*list)->next;
      delete *list;
      *list = next;
    }
  }
}

TraceWriter::OpenResult TraceWriter::Open(const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) {
    on_ = false;
    return OpenResult::kFailed;
  }
  struct stat status;
  OpenResult result = OpenResult::kOpen;
  if (flock(file, LOCK_EX | LOCK_NB) != 0)
    result = OpenResult::kTaken;
  else if (fstat(file, &status) == 0 && status.st_size > 0)
    result = OpenResult::kExists;
  if (result == OpenResult::kOpen && !Start())
    result = OpenResult::kFailed;
  if (result != OpenResult::kOpen) {
    const int error = errno;
    close(file);
    on_ = false;
    errno = error;
    return result;
  }
  {
    std::lock_guard lock(mutex_);
    file_ = file;
    path_ = path;
    open_ = true;
  }
  Wake();
  return result;
}

bool TraceWriter::Start() {
  if (wake_ >= 0)
    return true;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  void* const c_library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  auto create = c_library == nullptr
                    ? nullptr
                    : reinterpret_cast<Create>(dlsym(c_library, "pthread_create"));
  if (create == nullptr)
    create = pthread_create;  // another C library
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0)
    return false;
  // The program's signal handlers are none of this thread's business.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = create(&thread_, nullptr, RunThread, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    close(wake_);
    wake_ = -1;
  }
  on_ = error == 0;
  errno = error;
  return error == 0;
}

TraceWriter::ThreadChunks* TraceWriter::Mine() {
  ThreadSlot& slot = ThreadValue<ThreadSlot>::Mine();
  if (slot.serial == serial_)
    return slot.chunks;
  slot.Leave();  // another writer's
  std::lock_guard lock(mutex_);
  ThreadChunks* mine = threads_;
  for (bool expected = false; mine != nullptr; mine = mine->next, expected = false)
    if (mine->taken.compare_exchange_strong(expected, true))
      break;
  if (mine == nullptr) {
    mine = new (std::nothrow) ThreadChunks;
    if (mine == nullptr)
      return nullptr;
    mine->next = threads_;
    threads_ = mine;
  }
  slot.serial = serial_;
  slot.chunks = mine;
  return mine;
}

Chunk* TraceWriter::NewChunk(trace::Source source) {
  Chunk* chunk = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (free_ != nullptr) {
      chunk = free_;
      free_ = chunk->next;
    } else if (chunks_ < kMaxChunks) {
      // Not value-initialized: a chunk's bytes are cleared record by record.
      chunk = new (std::nothrow) Chunk;
      chunks_ += chunk != nullptr ? 1 : 0;
    }
  }
  if (chunk != nullptr) {
    chunk->next = nullptr;
    chunk->source = source;
    chunk->records = 0;
    chunk->used = 0;
  }
  return chunk;
}

void TraceWriter::HandOver(Chunk* chunk) {
  {
    std::lock_guard lock(mutex_);
    (full_last_ != nullptr ? full_last_->next : full_first_) = chunk;
    full_last_ = chunk;
  }
  Wake();
}

void TraceWriter::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof one);
}

void TraceWriter::AppendBytes(trace::Source source, const void* record, size_t size,
                              const void* tail, size_t tail_bytes) {
  if (!on_.load(std::memory_order_relaxed))
    return;
  const size_t total = (size + tail_bytes + 7) & ~size_t{7};
  ThreadChunks* mine = total <= kChunkBytes ? Mine() : nullptr;
  if (mine == nullptr) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::lock_guard lock(mine->mutex);
  Chunk*& chunk = mine->chunks[static_cast<int>(source)];
  if (chunk != nullptr && !chunk->Fits(total)) {
    HandOver(chunk);
    chunk = nullptr;
  }
  if (chunk == nullptr)
    chunk = NewChunk(source);
  if (chunk == nullptr) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  auto* at = static_cast<unsigned char*>(chunk->Take(total));
  std::memcpy(at, record, size);
  if (tail_bytes > 0)
    std::memcpy(at + size, tail, tail_bytes);
  reinterpret_cast<trace::Record*>(at)->size = static_cast<uint32_t>(total);
}

uint32_t TraceWriter::Name(std::string_view name) {
  if (name.empty() || !on_.load(std::memory_order_relaxed))
    return 0;
  name = name.substr(0, kMaxName);
  std::lock_guard lock(names_mutex_);
  const auto [found, fresh] = names_.try_emplace(std::string(name), 0);
  if (!fresh)
    return found->second;
  found->second = static_cast<uint32_t>(names_.size());
  trace::Name record{};
  record.record.kind = trace::Kind::kName;
  record.name = found->second;
  record.length = static_cast<uint32_t>(name.size());
  Append(trace::Source::kProgram, record, name.data(), name.size());
  return found->second;
}

void TraceWriter::Flush() {
  if (!on_.load(std::memory_order_relaxed))
    return;
  ThreadChunks* thread;
  {
    std::lock_guard lock(mutex_);
    thread = threads_;
  }
  // The list only grows at its head: walking it needs no lock.
  for (; thread != nullptr; thread = thread->next) {
    std::lock_guard lock(thread->mutex);
    for (Chunk*& chunk : thread->chunks)
      if (chunk != nullptr && chunk->used > 0) {
        HandOver(chunk);
        chunk = nullptr;
      }
  }
}

void TraceWriter::Finish(uint64_t cupti_dropped, uint16_t flags) {
  if (!on_.load(std::memory_order_relaxed))
    return;
  Flush();
  on_.store(false, std::memory_order_relaxed);
  // A thread that was between its look at on_ and its lock may still fill a chunk; that
  // record comes after the end of the trace.
  if (Chunk* last = NewChunk(trace::Source::kProgram)) {
    const trace::Dropped dropped{{trace::Kind::kDropped, 0, sizeof(trace::Dropped)},
                                 cupti_dropped,
                                 this->dropped()};
    std::memcpy(last->Take(sizeof dropped), &dropped, sizeof dropped);
    const trace::End end{{trace::Kind::kEnd, flags, sizeof(trace::End)}};
    std::memcpy(last->Take(sizeof end), &end, sizeof end);
    HandOver(last);
  }
  {
    std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  Wake();
  pthread_join(thread_, nullptr);
  close(wake_);
  wake_ = -1;
  if (file_ >= 0 && close(file_) != 0 && !failed_)
    RawLog("tracer", "cannot finish %s: %s; the trace may be incomplete", path_.c_str(),
           strerror(errno));
  file_ = -1;
}

void* TraceWriter::RunThread(void* self) {
  static_cast<TraceWriter*>(self)->Run();
  return nullptr;
}

void TraceWriter::Run() {
  while (true) {
    uint64_t times;
    while (read(wake_, &times, sizeof times) < 0 && errno == EINTR) {
    }
    while (true) {
      Chunk* chunk;
      {
        std::lock_guard lock(mutex_);
        chunk = full_first_;
        if (finishing_ && (chunk == nullptr || !open_))
          return;
        if (chunk == nullptr || !open_)
          break;
        full_first_ = chunk->next;
        if (full_first_ == nullptr)
          full_last_ = nullptr;
      }
      WriteChunk(chunk);
      std::lock_guard lock(mutex_);
      chunk->next = free_;
      free_ = chunk;
    }
  }
}

void TraceWriter::WriteChunk(Chunk* chunk) {
  if (failed_) {
    dropped_.fetch_add(chunk->records, std::memory_order_relaxed);
    return;
  }
  trace::ChunkHeader header{};
  std::memcpy(header.magic, trace::kMagic, sizeof header.magic);
  header.version = trace::kVersion;
  header.source = chunk->source;
  header.encoding = trace::Encoding::kPlain;
  header.sequence = sequence_++;
  header.records = chunk->records;
  header.stored_bytes = header.plain_bytes = header.encoded_bytes = chunk->used;
  header.crc = Crc32c(chunk->bytes, chunk->used, Crc32c(&header, sizeof header));
  if (WriteAll(&header, sizeof header) && WriteAll(chunk->bytes, chunk->used))
    return;
  failed_ = true;
  dropped_.fetch_add(chunk->records, std::memory_order_relaxed);
  RawLog("tracer",
         "cannot write %s: %s; the program goes on, the trace ends here: make room and "
         "trace again",
         path_.c_str(), strerror(errno));
}

bool TraceWriter::WriteAll(const void* bytes, size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = write(file_, at, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    at += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace vrank::tracer
