#include "emulator/watch/thread_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace vrank::emulator {
namespace {

// Of the files that the program may have open: the others are for sockets and graphs.
constexpr rlim_t kShareOfFiles = 4;

// Looks after which a process that none of them came to is forgotten.
constexpr uint64_t kLooksKept = 1024;

std::string PathOf(pid_t pid, pid_t tid, std::string_view file) {
  return fmt::format("/proc/{}/task/{}/{}", pid, tid, file);
}

// What a file of /proc holds, up to the buffer's size. Empty where the thread is gone.
class Text {
 public:
  explicit Text(int file) { Read(file); }
  Text(pid_t pid, pid_t tid, std::string_view name) {
    const int file = open(PathOf(pid, tid, name).c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
      return;
    Read(file);
    close(file);
  }
  std::string_view view() const { return {text_, length_}; }

 private:
  void Read(int file) {
    const ssize_t got = pread(file, text_, sizeof text_, 0);
    length_ = got > 0 ? static_cast<size_t>(got) : 0;
  }

  char text_[1024];
  size_t length_ = 0;
};

// Takes the next number from the text's beginning.
template <typename Number>
bool TakeNumber(std::string_view* text, Number* number, int base = 10) {
  text->remove_prefix(std::min(text->find_first_not_of(" \n"), text->size()));
  if (base == 16 && text->starts_with("0x"))
    text->remove_prefix(2);
  const auto result =
      std::from_chars(text->data(), text->data() + text->size(), *number, base);
  if (result.ec != std::errc())
    return false;
  text->remove_prefix(static_cast<size_t>(result.ptr - text->data()));
  return true;
}

// Field 3 of `stat`; the name before it, in parentheses, may hold anything.
char StateIn(std::string_view stat) {
  const size_t end = stat.rfind(')');
  return end == std::string_view::npos || end + 2 >= stat.size() ? 'X' : stat[end + 2];
}

bool IsGone(char state) {
  return state == 'Z' || state == 'X';
}

// The futex in which it sleeps may be one of processes outside of the job: a named
// semaphore. vrank's own waits for shared words have a limit; the kernel wakes a join,
// whose word is the number of the joined thread, as a shared one.
bool MayBeWokenFromOutside(pid_t pid, pid_t tid) {
  const Text text(pid, tid, "syscall");
  std::string_view rest = text.view();
  long number = 0;
  uint64_t address = 0, operation = 0, value = 0, timeout = 0;
  if (!TakeNumber(&rest, &number) || number != SYS_futex ||
      !TakeNumber(&rest, &address, 16) || !TakeNumber(&rest, &operation, 16) ||
      !TakeNumber(&rest, &value, 16) || !TakeNumber(&rest, &timeout, 16))
    return false;
  const auto joined = static_cast<pid_t>(static_cast<uint32_t>(value));
  return (operation & FUTEX_PRIVATE_FLAG) == 0 && timeout == 0 &&
         access(fmt::format("/proc/{}/task/{}", pid, joined).c_str(), F_OK) != 0;
}

}  // namespace

// A file descriptor that stays open; beyond the limit on open files, the file is opened
// for each read.
class ThreadWatch::File {
 public:
  File() = default;
  ~File() { Close(); }
  File(File&& other) noexcept
      : file_(std::exchange(other.file_, -1)), left_(other.left_) {}
  File& operator=(File&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(left_, other.left_);
    return *this;
  }

  Text Read(pid_t pid, pid_t tid, std::string_view name, int* left) {
    if (file_ < 0 && *left > 0) {
      file_ = open(PathOf(pid, tid, name).c_str(), O_RDONLY | O_CLOEXEC);
      left_ = left;
      *left -= file_ >= 0 ? 1 : 0;
    }
    return file_ >= 0 ? Text(file_) : Text(pid, tid, name);
  }

 private:
  void Close() {
    if (file_ < 0)
      return;
    close(file_);
    ++*left_;
  }

  int file_ = -1;
  int* left_ = nullptr;
};

struct ThreadWatch::Thread {
  pid_t tid = 0;
  File stat, schedule;
  // At the last look.
  bool gone = false;
  bool slept = false;  // what follows is of then
  uint64_t runs = 0, cpu_ns = 0;
  std::optional<bool> waits_for_thread;  // where it has been asked for
  std::vector<pid_t> children;           // processes that it has started
};

struct ThreadWatch::Process {
  // A thread that was running at the last look is first.
  std::vector<Thread> threads;
  bool first_runs = false;
  // There are no others, unless one of them has run since.
  bool complete = false;
  uint64_t last_look = 0;
};

ThreadWatch::ThreadWatch() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files_left_ = static_cast<int>(
      std::min<rlim_t>(files.rlim_cur / kShareOfFiles, rlim_t{1} << 14));
}

ThreadWatch::~ThreadWatch() = default;

// How often it has run is read first: a thread that runs after that has run once more
// at the next look, and all else about it is read again then.
ThreadWatch::Seen ThreadWatch::LookAt(Thread* thread, pid_t pid) {
  const Text schedule =
      thread->schedule.Read(pid, thread->tid, "schedstat", &files_left_);
  const Text stat = thread->stat.Read(pid, thread->tid, "stat", &files_left_);
  const char state = StateIn(stat.view());
  std::string_view numbers = schedule.view();
  uint64_t ran_ns = 0, waited_ns = 0, runs = 0;
  const bool was_gone = std::exchange(thread->gone, IsGone(state));
  if (thread->gone) {
    thread->slept = false;
    return was_gone ? Seen::kAsBefore : Seen::kGone;
  }
  if (state != 'S' || !TakeNumber(&numbers, &ran_ns) ||
      !TakeNumber(&numbers, &waited_ns) || !TakeNumber(&numbers, &runs)) {
    thread->slept = false;
    return Seen::kRuns;
  }
  if (thread->slept && thread->runs == runs)
    return Seen::kAsBefore;
  thread->slept = false;
  // Some kernels have no such file, and not everybody may read another one's.
  if (Text(pid, thread->tid, "syscall").view().starts_with("running"))
    return Seen::kRuns;
  thread->children.clear();
  const Text children(pid, thread->tid, "children");
  std::string_view rest = children.view();
  for (pid_t child = 0; TakeNumber(&rest, &child);)
    thread->children.push_back(child);
  thread->waits_for_thread.reset();
  thread->runs = runs;
  thread->cpu_ns = ran_ns;
  thread->slept = true;
  return Seen::kWaits;
}

bool ThreadWatch::WaitsForThread(Thread* thread, pid_t pid) {
  // futex_do_wait, futex_wait_queue: functions of kernel/futex.
  if (!thread->waits_for_thread.has_value())
    thread->waits_for_thread =
        Text(pid, thread->tid, "wchan").view().starts_with("futex") &&
        !MayBeWokenFromOutside(pid, thread->tid);
  return *thread->waits_for_thread;
}

// Updates the list of threads from /proc/PID/task. False: the process has exited.
bool ThreadWatch::FindThreads(Process* process, pid_t pid, bool* found_new) {
  DIR* const folder = opendir(fmt::format("/proc/{}/task", pid).c_str());
  if (folder == nullptr)
    return false;
  std::vector<pid_t> found;
  while (const dirent* const entry = readdir(folder)) {
    std::string_view name = entry->d_name;
    if (pid_t tid = 0; TakeNumber(&name, &tid))
      found.push_back(tid);
  }
  closedir(folder);
  std::erase_if(process->threads, [&found](const Thread& thread) {
    return std::erase(found, thread.tid) == 0;
  });
  *found_new = !found.empty();
  for (const pid_t tid : found)
    process->threads.emplace_back().tid = tid;
  return true;
}

// Checks the known threads before it reads the list of threads: only if none of them
// has run since the previous look, and the list has no others, is the list complete
// until one runs.
bool ThreadWatch::LookAtProcess(pid_t pid, ThreadsIn where, Waiters* sum) {
  std::unique_ptr<Process>& known = processes_[pid];
  if (known == nullptr)
    known = std::make_unique<Process>();
  Process& process = *known;
  process.last_look = looks_;
  process.first_runs = false;
  bool as_before = true;
  size_t looked_at = 0;
  for (;;) {
    for (; looked_at < process.threads.size(); ++looked_at) {
      const Seen seen = LookAt(&process.threads[looked_at], pid);
      as_before &= seen == Seen::kAsBefore;
      if (seen != Seen::kRuns)
        continue;
      std::swap(process.threads[looked_at], process.threads.front());
      process.first_runs = true;
      process.complete = false;
      return false;
    }
    process.complete &= as_before;
    if (process.complete)
      break;
    bool found_new = false;
    if (!FindThreads(&process, pid, &found_new)) {
      processes_.erase(pid);
      return true;
    }
    process.complete = as_before && !found_new;
    if (!found_new)
      break;
    as_before = false;
    // Exited threads were erased: indices have changed.
    looked_at = 0;
  }
  std::vector<pid_t> children;
  for (Thread& thread : process.threads) {
    if (thread.gone)
      continue;
    if (where == ThreadsIn::kWaitsForThreads && !WaitsForThread(&thread, pid))
      return false;
    sum->runs += thread.runs + 1;
    sum->cpu_ns += thread.cpu_ns;
    children.insert(children.end(), thread.children.begin(), thread.children.end());
  }
  return std::all_of(children.begin(), children.end(),
                     [&](pid_t child) { return LookAtProcess(child, where, sum); });
}

std::optional<ThreadWatch::Waiters> ThreadWatch::Look(pid_t pid, ThreadsIn where) {
  if (++looks_ % kLooksKept == 0)
    ForgetOld();
  Waiters sum;
  return LookAtProcess(pid, where, &sum) ? std::optional(sum) : std::nullopt;
}

void ThreadWatch::ForgetOld() {
  std::erase_if(processes_, [this](const auto& process) {
    return process.second->last_look + kLooksKept < looks_;
  });
}

bool ThreadWatch::StillRuns(pid_t pid) {
  const auto process = processes_.find(pid);
  if (process == processes_.end() || !process->second->first_runs)
    return false;
  Thread& thread = process->second->threads.front();
  const Text stat = thread.stat.Read(pid, thread.tid, "stat", &files_left_);
  const char state = StateIn(stat.view());
  return !IsGone(state) && state != 'S';
}

}  // namespace vrank::emulator
