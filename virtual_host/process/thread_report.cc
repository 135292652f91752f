#include "virtual_host/process/thread_report.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "virtual_host/system/proc_text.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/system/real_calls.h"
#include "virtual_host/turns/thread_state.h"
#include "virtual_host/wait/thread_waits.h"

namespace vrank::host {

constinit PlacesOfThreads places_of_threads = nullptr;

namespace {

constexpr size_t kMostLines = 24;

constinit std::atomic<protocol::Segment*> questions{nullptr};
constinit std::atomic<bool> answering{false};

struct Task {
  pid_t tid = 0;
  std::string name;
  std::string at;
  KnownWait wait;
  pid_t holder = 0;              // who has what it waits for
  bool waits_by_itself = false;  // ThreadPlace::is_of_program
  bool holds = false;            // what another one waits for
  bool is_listed = false;
};

// --- Who holds it

pid_t ThreadOf(pthread_t thread) {
  clockid_t clock = 0;
  // The number of the thread is in the clock's (CPUCLOCK_PERTHREAD in Linux's
  // posix-timers_types.h).
  return pthread_getcpuclockid(thread, &clock) == 0 ? ~(clock >> 3) : 0;
}

pid_t HolderOf(const KnownWait& wait) {
  switch (wait.kind) {
    case WaitKind::kMutex:
      return static_cast<const pthread_mutex_t*>(wait.object)->__data.__owner;
    case WaitKind::kReadWriteLock:
      return static_cast<const pthread_rwlock_t*>(wait.object)->__data.__cur_writer;
    case WaitKind::kSemaphore:
      return thread_waits.LastTaker(wait.object);
    case WaitKind::kThreadEnd:
      return ThreadOf(reinterpret_cast<pthread_t>(wait.object));
    case WaitKind::kCondition:
    case WaitKind::kTime:
    case WaitKind::kUnknown:
      break;
  }
  return 0;
}

std::string NameIn(const std::vector<Task>& tasks, pid_t tid);

// --- Waits that only the kernel knows

std::string Descriptor(long fd) {
  char path[64], target[256];
  snprintf(path, sizeof path, "/proc/self/fd/%ld", fd);
  const long bytes =
      RawSyscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof target - 1);
  return "descriptor " + std::to_string(fd) +
         (bytes > 0 ? " (" + std::string(target, static_cast<size_t>(bytes)) + ")"
                    : "");
}

// What stands at an address of another thread's, which may have gone on.
template <typename T>
std::optional<T> ReadAt(uint64_t address) {
  T value{};
  iovec to{&value, sizeof value};
  iovec from{reinterpret_cast<void*>(address), sizeof value};
  return RawSyscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0) == sizeof value
             ? std::optional<T>(value)
             : std::nullopt;
}

// Behind the first one there may be one of ours (wait/descriptor_wait.h).
std::string PolledDescriptors(uint64_t address, uint64_t count) {
  const auto first = ReadAt<pollfd>(address);
  return count <= 2 && first.has_value() ? Descriptor(first->fd)
                                         : "descriptors, by poll";
}

// A mutex that is waited for has 2 in its first word, and its owner in the third
// (glibc's lowlevellock.h and struct_mutex.h).
std::string FutexText(uint64_t address, const std::vector<Task>& tasks) {
  struct Mutex {
    int lock;
    unsigned count;
    pid_t owner;
  };
  const auto mutex = ReadAt<Mutex>(address);
  if (mutex.has_value() && mutex->lock == 2 &&
      std::any_of(tasks.begin(), tasks.end(),
                  [&](const Task& task) { return task.tid == mutex->owner; }))
    return "waits for a mutex that " + NameIn(tasks, mutex->owner) + " holds";
  return "waits in a futex";
}

struct Call {
  long number = -1;
  uint64_t arguments[3] = {};
};
// nullopt: it runs, also at a second and a third look.
std::optional<Call> CallOf(pid_t tid) {
  constexpr int kLooks = 3;
  char folder[64];
  snprintf(folder, sizeof folder, "/proc/self/task/%d", tid);
  for (int look = 0; look < kLooks; ++look) {
    const ProcText<256> text(folder, "syscall");
    char* end = nullptr;
    Call call;
    call.number = strtol(text.text, &end, 10);
    if (end != text.text) {
      for (uint64_t& argument : call.arguments)
        argument = strtoull(end, &end, 16);
      return call;
    }
    sched_yield();
  }
  return std::nullopt;
}

std::string SystemCall(pid_t tid, const std::vector<Task>& tasks) {
  const std::optional<Call> call = CallOf(tid);
  if (!call.has_value())
    return "runs, or looks again and again";
  const long number = call->number;
  const auto& arguments = call->arguments;
  switch (number) {
    case SYS_futex:
      return FutexText(arguments[0], tasks);
    case SYS_read:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_readv:
      return "reads from " + Descriptor(static_cast<long>(arguments[0]));
    case SYS_write:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_writev:
      return "writes to " + Descriptor(static_cast<long>(arguments[0]));
    case SYS_flock:
    case SYS_fcntl:
      return "waits for a lock of " + Descriptor(static_cast<long>(arguments[0]));
    case SYS_accept4:
      return "waits for a connection to " + Descriptor(static_cast<long>(arguments[0]));
    case SYS_connect:
      return "connects " + Descriptor(static_cast<long>(arguments[0]));
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
      return "waits for " + PolledDescriptors(arguments[0], arguments[1]);
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
      return "waits for descriptors, by select";
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
      return "waits for descriptors, by epoll";
    case SYS_wait4:
    case SYS_waitid:
      return "waits for a child process";
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return "sleeps";
#ifdef SYS_pause
    case SYS_pause:
#endif
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
      return "waits for a signal";
    case SYS_openat:
      return "opens a file";
    default:
      return "is in system call " + std::to_string(number);
  }
}

// --- The text

// A number of another process's thread, too: locks are inherited by a fork.
std::string NameIn(const std::vector<Task>& tasks, pid_t tid) {
  const auto task = std::find_if(tasks.begin(), tasks.end(),
                                 [tid](const Task& one) { return one.tid == tid; });
  const std::string number = std::to_string(tid);
  if (task != tasks.end())
    return task->name + " (" + number + ")";
  const std::string folder = "/proc/" + number;
  const ProcText<32> comm(folder.c_str(), "comm");
  return comm.bytes > 1
             ? std::string(comm.text, comm.bytes - 1) + " of process " + number
             : "a thread that has ended (" + number + ")";
}

std::string WaitText(const Task& task, const std::vector<Task>& tasks) {
  const std::string holder = task.holder == 0          ? ""
                             : task.holder == task.tid ? "it"
                                                       : NameIn(tasks, task.holder);
  const auto with = [&](const char* what, const char* has) {
    return std::string("waits for ") + what +
           (holder.empty() ? "" : " that " + holder + has) +
           (holder == "it" ? " itself" : "");
  };
  switch (task.wait.kind) {
    case WaitKind::kMutex:
      return with("a mutex", " holds");
    case WaitKind::kReadWriteLock:
      return with("a reader-writer lock", " holds for writing");
    case WaitKind::kSemaphore:
      return with("a lock or semaphore", " took last");
    case WaitKind::kCondition:
      return "waits for a condition";
    case WaitKind::kThreadEnd:
      return "waits for the end of " + (holder.empty() ? "a thread" : holder);
    case WaitKind::kTime:
      return "sleeps";
    case WaitKind::kUnknown:
      break;
  }
  return SystemCall(task.tid, tasks);
}

void AddWaits(std::vector<Task>* tasks) {
  for (Task& task : *tasks) {
    task.wait = thread_waits.Of(task.tid);
    task.holder = HolderOf(task.wait);
    // Python's conditions and events take a lock, and wait until another thread gives
    // it back.
    if (task.holder == task.tid && task.wait.kind == WaitKind::kSemaphore &&
        !task.at.empty() && !task.waits_by_itself)
      task.holder = 0;
  }
}

std::vector<Task> TasksOf(const std::vector<ThreadPlace>& places) {
  std::vector<Task> tasks;
  const pid_t self = static_cast<pid_t>(RawSyscall(SYS_gettid));
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr)
    return tasks;
  while (const dirent* const entry = readdir(folder)) {
    Task task;
    task.tid = atoi(entry->d_name);
    if (task.tid == 0 || task.tid == self)
      continue;
    const std::string path = std::string("/proc/self/task/") + entry->d_name;
    const ProcText<32> comm(path.c_str(), "comm");
    task.name.assign(comm.text, comm.bytes > 0 ? comm.bytes - 1 : 0);
    for (const ThreadPlace& place : places)
      if (place.tid == task.tid) {
        task.name = place.name;
        task.at = place.at;
        task.waits_by_itself = place.is_of_program;
      }
    tasks.push_back(std::move(task));
  }
  closedir(folder);
  AddWaits(&tasks);
  return tasks;
}

// Of a program in Python its own threads, else all; with them who holds what they wait
// for. Holders come first.
void Select(std::vector<Task>* tasks) {
  const bool has_places = std::any_of(
      tasks->begin(), tasks->end(), [](const Task& task) { return !task.at.empty(); });
  for (Task& task : *tasks)
    task.is_listed = !has_places || !task.at.empty();
  for (bool again = true; again;) {
    again = false;
    for (const Task& task : *tasks)
      for (Task& other : *tasks) {
        if (!task.is_listed || other.tid != task.holder || other.holds)
          continue;
        other.holds = true;
        again |= !std::exchange(other.is_listed, true);
      }
  }
  std::stable_partition(tasks->begin(), tasks->end(),
                        [](const Task& task) { return task.holds; });
}

// Control characters are the terminal's; a source line may be a file.
std::string Cleaned(std::string line) {
  constexpr size_t kMostBytes = 400;
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
      c = '?';
  if (line.size() > kMostBytes)
    line = line.substr(0, kMostBytes) + "...";
  return line;
}

// Threads that wait alike share a line.
std::string Report(const std::vector<ThreadPlace>& places) {
  std::vector<Task> tasks = TasksOf(places);
  Select(&tasks);
  struct Line {
    std::string who, what;
    size_t others = 0;
  };
  std::vector<Line> lines;
  size_t left_out = 0;
  for (const Task& task : tasks) {
    if (!task.is_listed) {
      ++left_out;
      continue;
    }
    const std::string what =
        WaitText(task, tasks) + (task.at.empty() ? "" : ", at " + task.at);
    const auto alike = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return !task.holds && line.what == what;
    });
    if (alike != lines.end())
      ++alike->others;
    else if (lines.size() < kMostLines)
      lines.push_back({NameIn(tasks, task.tid), what});
    else
      ++left_out;
  }
  std::string text;
  for (const Line& line : lines) {
    const std::string more =
        line.others == 0 ? "" : " (and " + std::to_string(line.others) + " like it)";
    text += Cleaned(line.who + more + " " + line.what) + "\n";
  }
  if (left_out != 0)
    text += std::to_string(left_out) + " more\n";
  return text;
}

void Write(protocol::ThreadReport* report, std::string text) {
  constexpr char kCut[] = "\n...\n";
  if (text.size() > sizeof report->text)
    text.replace(sizeof report->text - sizeof kCut, std::string::npos, kCut);
  memcpy(report->text, text.data(), text.size());
  report->bytes.store(static_cast<uint32_t>(text.size()), std::memory_order_release);
}

// First without the places, which may take for ever.
void* Answer(void*) {
  InsideScope inside;
  protocol::ThreadReport* const report = &questions.load()->threads;
  const uint32_t number = report->asked.load();
  const bool has_places =
      places_of_threads != nullptr && places_of_threads(false).is_running;
  Write(report,
        Report({}) + (has_places ? "where they are in Python is not known: a thread "
                                   "keeps the interpreter's lock\n"
                                 : ""));
  if (has_places)
    Write(report, Report(places_of_threads(true).places));
  answering.store(false);
  report->told.store(number, std::memory_order_release);
  return nullptr;
}

void OnQuestion(int) {
  const int saved_errno = errno;
  protocol::Segment* const segment = questions.load();
  const protocol::ThreadReport& report = segment->threads;
  pthread_t thread{};
  if (report.asked.load() != report.told.load() && !answering.exchange(true) &&
      Real().pthread_create(&thread, nullptr, Answer, nullptr) == 0)
    pthread_detach(thread);
  errno = saved_errno;
}

}  // namespace

void AnswerThreadQuestions(protocol::Segment* segment) {
  questions.store(segment);
  answering.store(false);
  struct sigaction action {};
  action.sa_handler = OnQuestion;
  action.sa_flags = SA_RESTART;
  sigaction(protocol::kAskThreadsSignal, &action, nullptr);
}

}  // namespace vrank::host
