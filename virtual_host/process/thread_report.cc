#include "virtual_host/process/thread_report.h"

#include <dirent.h>
#include <pthread.h>
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
  pid_t holder = 0;  // who has what it waits for
  bool is_listed = false;
};

// --- Who holds it

pid_t ThreadOf(pthread_t thread) {
  clockid_t clock = 0;
  // The number of the thread is in the clock's (CPUCLOCK_PERTHREAD in Linux's
  // posix-timers_types.h).
  return pthread_getcpuclockid(thread, &clock) == 0 ? ~(clock >> 3) : 0;
}

pid_t HolderOf(const KnownWait& wait, pid_t self) {
  pid_t holder = 0;
  switch (wait.kind) {
    case WaitKind::kMutex:
      holder = static_cast<const pthread_mutex_t*>(wait.object)->__data.__owner;
      break;
    case WaitKind::kReadWriteLock:
      holder = static_cast<const pthread_rwlock_t*>(wait.object)->__data.__cur_writer;
      break;
    case WaitKind::kSemaphore:
      holder = thread_waits.LastTaker(wait.object);
      break;
    case WaitKind::kThreadEnd:
      holder = ThreadOf(reinterpret_cast<pthread_t>(wait.object));
      break;
    case WaitKind::kCondition:
    case WaitKind::kUnknown:
      break;
  }
  // Python's conditions and events take a semaphore, and wait until another thread
  // gives it back.
  return holder == self && wait.kind == WaitKind::kSemaphore ? 0 : holder;
}

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

// Of one descriptor: which. `address`: of the pollfd.
std::string PolledDescriptor(uint64_t address) {
  pollfd polled{};
  iovec to{&polled, sizeof polled};
  iovec from{reinterpret_cast<void*>(address), sizeof polled};
  if (RawSyscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0) != sizeof polled)
    return "a descriptor";
  return Descriptor(polled.fd);
}

std::string SystemCall(pid_t tid) {
  char folder[64];
  snprintf(folder, sizeof folder, "/proc/self/task/%d", tid);
  const ProcText<256> text(folder, "syscall");
  char* end = nullptr;
  const long number = strtol(text.text, &end, 10);
  if (end == text.text)
    return "runs";
  uint64_t arguments[3] = {};
  for (uint64_t& argument : arguments)
    argument = strtoull(end, &end, 16);
  switch (number) {
    case SYS_futex:
      return "waits for another thread, in a futex";
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
      return arguments[1] == 1 ? "waits for " + PolledDescriptor(arguments[0])
                               : "waits for descriptors, by poll";
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
    default:
      return "is in system call " + std::to_string(number);
  }
}

// --- The text

std::string NameIn(const std::vector<Task>& tasks, pid_t tid) {
  const auto task = std::find_if(tasks.begin(), tasks.end(),
                                 [tid](const Task& one) { return one.tid == tid; });
  if (task == tasks.end())
    return "a thread that has ended (" + std::to_string(tid) + ")";
  return task->name + " (" + std::to_string(tid) + ")";
}

std::string WaitText(const Task& task, const std::vector<Task>& tasks) {
  const std::string holder = task.holder == 0 ? "" : NameIn(tasks, task.holder);
  const auto with = [&holder](const char* what, const char* has) {
    return std::string("waits for ") + what +
           (holder.empty() ? "" : " that " + holder + has);
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
    case WaitKind::kUnknown:
      break;
  }
  return SystemCall(task.tid);
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
    task.wait = thread_waits.Of(task.tid);
    task.holder = HolderOf(task.wait, task.tid);
    for (const ThreadPlace& place : places)
      if (place.tid == task.tid) {
        task.name = place.name;
        task.at = place.at;
      }
    tasks.push_back(std::move(task));
  }
  closedir(folder);
  return tasks;
}

// Of a program in Python its own threads; else the main thread and those whose wait is
// known. With them who holds what they wait for.
void Select(std::vector<Task>* tasks) {
  const bool has_places = std::any_of(
      tasks->begin(), tasks->end(), [](const Task& task) { return !task.at.empty(); });
  for (Task& task : *tasks)
    task.is_listed = has_places
                         ? !task.at.empty()
                         : task.tid == getpid() || task.wait.kind != WaitKind::kUnknown;
  for (bool again = true; again;) {
    again = false;
    for (const Task& task : *tasks)
      for (Task& other : *tasks)
        if (task.is_listed && other.tid == task.holder && !other.is_listed)
          other.is_listed = again = true;
  }
}

std::string Report(const std::vector<ThreadPlace>& places) {
  std::vector<Task> tasks = TasksOf(places);
  Select(&tasks);
  std::string text;
  size_t lines = 0;
  for (const Task& task : tasks) {
    if (!task.is_listed || lines == kMostLines)
      continue;
    ++lines;
    text += NameIn(tasks, task.tid) + " " + WaitText(task, tasks) +
            (task.at.empty() ? "" : ", at " + task.at) + "\n";
  }
  if (lines < tasks.size())
    text += std::to_string(tasks.size() - lines) + " more\n";
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
  Write(report, Report({}));
  if (places_of_threads != nullptr)
    Write(report, Report(places_of_threads()));
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
