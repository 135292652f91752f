// The program of preload_test: knows nothing of vrank but the channel, and checks from
// inside what its clocks, sleeps and waits do. Prints "passed NAME" or what went wrong.

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>

#include "base/guest/channel.h"
#include "tests/virtual_host/guest_check.h"

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// What the test's settings say.
constexpr int64_t kRealtimeStart = 2'000'000'000'000'000'000;
constexpr int64_t kMonotonicStart = 5'000'000'000;
constexpr int64_t kRead = 25;
constexpr int64_t kMillisecond = 1'000'000;

int64_t Read(clockid_t clock) {
  timespec now;
  CHECK(clock_gettime(clock, &now) == 0);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}
// As Python's multiprocessing does: until a reading is later than the limit.
void EndsALimitOfZero() {
  const int64_t limit = Read(CLOCK_MONOTONIC);
  while (Read(CLOCK_MONOTONIC) <= limit) {
  }
}
// Past this library.
int64_t RealMonotonic() {
  timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}
timespec In(clockid_t clock, int64_t ns) {
  const int64_t at = Read(clock) + ns;
  return {at / 1'000'000'000, at % 1'000'000'000};
}

vrank::Channel& Channel() {
  return *vrank::FindChannel();
}

void Claim() {
  CHECK(Channel().ClaimRank());
}

// The virtual length and real length of what `body` does.
struct Lengths {
  int64_t virtual_ns, real_ns;
};
template <typename Body>
Lengths Measure(Body body) {
  const int64_t real = RealMonotonic();
  const int64_t virtual_begin = Channel().Now().nanoseconds();
  body();
  return {Channel().Now().nanoseconds() - virtual_begin, RealMonotonic() - real};
}

void Clocks() {
  CHECK(Read(CLOCK_REALTIME) == kRealtimeStart + kRead);
  CHECK(Read(CLOCK_MONOTONIC) == kMonotonicStart + 2 * kRead);
  Claim();
  CHECK(Read(CLOCK_BOOTTIME) == kMonotonicStart + 3 * kRead);
  CHECK(Read(CLOCK_PROCESS_CPUTIME_ID) == 4 * kRead);
  CHECK(Read(CLOCK_THREAD_CPUTIME_ID) == 5 * kRead);
  Channel().Spend(vrank::Duration::Seconds(3));
  CHECK(time(nullptr) == kRealtimeStart / 1'000'000'000 + 3);
  timeval now;
  CHECK(gettimeofday(&now, nullptr) == 0 &&
        now.tv_sec == kRealtimeStart / 1'000'000'000 + 3);
  CHECK(clock() == 3 * CLOCKS_PER_SEC);
  timespec c11;
  CHECK(timespec_get(&c11, TIME_UTC) == TIME_UTC &&
        c11.tv_sec == kRealtimeStart / 1'000'000'000 + 3);
  const auto before = steady_clock::now();
  CHECK(steady_clock::now() - before == std::chrono::nanoseconds(kRead));
  const auto begin = steady_clock::now();  // a loop that polls the clock gets there
  while (steady_clock::now() - begin < milliseconds(1)) {
  }
  std::thread([] {
    const int64_t first = Read(CLOCK_MONOTONIC);
    CHECK(Read(CLOCK_MONOTONIC) == first);  // a helper's reading is free
    EndsALimitOfZero();
  }).join();
}

void Sleeps() {
  // Before the claim and after it.
  for (int i = 0; i < 2; ++i) {
    Lengths lengths = Measure([] { std::this_thread::sleep_for(seconds(100)); });
    CHECK(lengths.virtual_ns == 100'000 * kMillisecond);
    CHECK(lengths.real_ns < 1'000 * kMillisecond);
    CHECK(Measure([] { CHECK(sleep(2) == 0); }).virtual_ns == 2'000 * kMillisecond);
    CHECK(Measure([] { CHECK(usleep(7) == 0); }).virtual_ns == 7'000);
    lengths = Measure([] {
      const timespec at = In(CLOCK_REALTIME, 50 * kMillisecond);
      CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, nullptr) == 0);
    });
    CHECK(lengths.virtual_ns == 50 * kMillisecond + kRead);
    const timespec invalid{0, 2'000'000'000};
    CHECK(nanosleep(&invalid, nullptr) == -1 && errno == EINVAL);
    Claim();
  }
  CHECK(Measure([] { sched_yield(); }).virtual_ns == 200);
}

void Helpers() {
  Claim();
  std::atomic<int> finished{0};
  // A helper's limit is over when the clock has passed it: long before real time has.
  std::thread sleeper([&] {
    std::this_thread::sleep_for(seconds(1000));
    ++finished;
  });
  std::mutex mutex;
  std::condition_variable condition;
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    CHECK(condition.wait_for(lock, seconds(1500)) == std::cv_status::timeout);
    ++finished;
  });
  std::thread poller([&] {
    CHECK(poll(nullptr, 0, 1'800'000) == 0);
    ++finished;
  });
  // Until all have noticed: under load a thread may begin late.
  while (finished < 3) {
    Channel().Spend(vrank::Duration::Seconds(2000));
    std::this_thread::sleep_for(milliseconds(5));
  }
  sleeper.join();
  waiter.join();
  poller.join();
  // Where nobody can run, the clock moves to the limit.
  std::thread([] {
    const Lengths lengths = Measure([] { usleep(30'000); });
    CHECK(lengths.virtual_ns == 30 * kMillisecond);
  }).join();
}

void Conditions() {
  Claim();
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  Lengths lengths =
      Measure([&] { condition.wait_for(lock, milliseconds(40)); });  // clockwait
  CHECK(lengths.virtual_ns == 40 * kMillisecond + kRead * 2);
  lengths = Measure([&] {  // timedwait
    condition.wait_until(lock, std::chrono::system_clock::now() + milliseconds(40));
  });
  CHECK(lengths.virtual_ns >= 40 * kMillisecond &&
        lengths.virtual_ns <= 40 * kMillisecond + 4 * kRead);
  // Satisfied: takes as long as what satisfies it, and not the limit.
  bool ready = false;
  std::thread helper([&] {
    usleep(30'000);
    std::lock_guard guard(mutex);
    ready = true;
    condition.notify_one();
  });
  const timespec limit = In(CLOCK_MONOTONIC, 3'600'000 * kMillisecond);
  lengths = Measure([&] {
    while (!ready)
      CHECK(pthread_cond_clockwait(condition.native_handle(), mutex.native_handle(),
                                   CLOCK_MONOTONIC, &limit) == 0);
  });
  // It has slept since it was created, one reading of the clock earlier.
  CHECK(lengths.virtual_ns == 30 * kMillisecond - kRead);
  helper.join();
  // A condition whose clock was set.
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_t monotonic;
  pthread_cond_init(&monotonic, &attributes);
  lengths = Measure([&] {
    const timespec at = In(CLOCK_MONOTONIC, 30 * kMillisecond);
    CHECK(pthread_cond_timedwait(&monotonic, mutex.native_handle(), &at) == ETIMEDOUT);
  });
  CHECK(lengths.virtual_ns == 30 * kMillisecond + kRead);
}

void Locks() {
  Claim();
  std::timed_mutex mutex;
  mutex.lock();
  Lengths lengths = Measure([&] { CHECK(!mutex.try_lock_for(milliseconds(20))); });
  CHECK(lengths.virtual_ns == 20 * kMillisecond + kRead);
  mutex.unlock();
  // A reading that gives a wait its limit is free: how often a thread waits for a lock
  // says what other threads do. The next reading comes no earlier, and is paid for.
  const int64_t before = Read(CLOCK_MONOTONIC);
  for (int i = 0; i < 50; ++i) {
    CHECK(mutex.try_lock_for(seconds(3600)));
    mutex.unlock();
  }
  CHECK(Read(CLOCK_MONOTONIC) == before + kRead);
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  timespec at = In(CLOCK_REALTIME, 20 * kMillisecond);
  lengths = Measure(
      [&] { CHECK(sem_timedwait(&semaphore, &at) == -1 && errno == ETIMEDOUT); });
  CHECK(lengths.virtual_ns == 20 * kMillisecond);
  at = In(CLOCK_MONOTONIC, 20 * kMillisecond);
  lengths = Measure([&] {
    CHECK(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &at) == -1 && errno == ETIMEDOUT);
  });
  CHECK(lengths.virtual_ns == 20 * kMillisecond);
  sem_post(&semaphore);
  CHECK(sem_timedwait(&semaphore, &at) == 0);
  pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
  pthread_rwlock_wrlock(&shared);
  at = In(CLOCK_REALTIME, 5 * kMillisecond);
  std::thread([&] {
    CHECK(pthread_rwlock_timedrdlock(&shared, &at) == ETIMEDOUT);
  }).join();
  // Futexes: std::future and std::counting_semaphore.
  std::promise<int> promise;
  std::future<int> future = promise.get_future();
  lengths = Measure(
      [&] { CHECK(future.wait_for(milliseconds(25)) == std::future_status::timeout); });
  CHECK(lengths.virtual_ns >= 25 * kMillisecond &&
        lengths.virtual_ns < 25 * kMillisecond + 10 * kRead);
  std::thread([&] { promise.set_value(4); }).join();
  CHECK(future.wait_for(seconds(1)) == std::future_status::ready && future.get() == 4);
}

void Descriptors() {
  Claim();
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  pollfd one{pipes[0], POLLIN, 0};
  CHECK(Measure([&] { CHECK(poll(&one, 1, 30) == 0); }).virtual_ns ==
        30 * kMillisecond);
  fd_set set{};
  FD_SET(pipes[0], &set);
  timeval limit{0, 30'000};
  CHECK(Measure([&] {
          CHECK(select(pipes[0] + 1, &set, nullptr, nullptr, &limit) == 0);
        }).virtual_ns == 30 * kMillisecond);
  CHECK(!FD_ISSET(pipes[0], &set));
  const int epoll = epoll_create1(0);
  epoll_event event{EPOLLIN, {}};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event) == 0);
  CHECK(Measure([&] { CHECK(epoll_wait(epoll, &event, 1, 30) == 0); }).virtual_ns ==
        30 * kMillisecond);
  CHECK(write(pipes[1], "x", 1) == 1);
  CHECK(Measure([&] {
          CHECK(poll(&one, 1, 30'000) == 1 && epoll_wait(epoll, &event, 1, 9'000) == 1);
          FD_SET(pipes[0], &set);
          limit = {100, 0};
          CHECK(select(pipes[0] + 1, &set, nullptr, nullptr, &limit) == 1);
          CHECK(FD_ISSET(pipes[0], &set));
        }).virtual_ns == 0);
}

void Forks() {
  Claim();
  vrank::protocol::Kernel kernel{};
  kernel.record.kind = vrank::protocol::RecordKind::kKernel;
  Channel().Emit(kernel);
  Channel().Spend(vrank::Duration::Nanoseconds(500));
  const pid_t child = fork();
  if (child == 0) {
    CHECK(Channel().detached());
    Channel().Emit(kernel);
    CHECK(Read(CLOCK_MONOTONIC) == kMonotonicStart + 500);
    EndsALimitOfZero();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(system("exit 3") == 3 << 8);  // another program of this rank
  CHECK(Read(CLOCK_MONOTONIC) == kMonotonicStart + 500 + kRead);
}

// A child after fork, without exec, before its parent has claimed the rank.
void ForksFirst() {
  const pid_t child = fork();
  if (child == 0) {
    CHECK(!Channel().detached());
    Claim();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(!Channel().ClaimRank());
}

void Ranges() {
  nvtxRangePushA("before the claim");
  Claim();
  CHECK(nvtxRangePushA("step") == 1);
  nvtxDomainHandle_t domain = nvtxDomainCreateA("lib");
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "inner");
  CHECK(nvtxDomainRangePushEx(domain, &event) == 0);
  const nvtxRangeId_t id = nvtxRangeStartW(L"w\u00e9");
  CHECK(nvtxDomainRangePop(domain) == 0);
  CHECK(nvtxRangePop() == 1);
  nvtxRangeEnd(id);
  nvtxMarkA("mark");
  CHECK(nvtxRangePop() == 0);
  std::thread([] {
    nvtxRangePushA("helper");
    nvtxRangePop();
  }).join();
}

void Opens() {
  void* runtime = dlopen("/nowhere/at/all/libcudart.so", RTLD_NOW);
  if (runtime == nullptr)
    printf("%s\n", dlerror());
  CHECK(runtime != nullptr && dlsym(runtime, "vrank_test_stand_in") != nullptr);
  CHECK(dlopen("/nowhere/libcudart.so.12", RTLD_NOW) == nullptr);
  CHECK(dlopen(nullptr, RTLD_NOW) != nullptr);
  // A library finds its neighbours through its own RUNPATH.
  const std::string folder = getenv("TEST_LIBRARIES");
  void* library = dlopen((folder + "/libdlopen_caller.so").c_str(), RTLD_NOW);
  CHECK(library != nullptr);
  auto open_inner = reinterpret_cast<void* (*)()>(dlsym(library, "OpenInner"));
  CHECK(open_inner != nullptr && open_inner() != nullptr);
  // NVRTC finds its builtins, which no RUNPATH leads to; nothing else does.
  CHECK(dlopen("libnvrtc-builtins.so.99.0", RTLD_NOW) == nullptr);
  library = dlopen((folder + "/compiler/libnvrtc.so.13").c_str(), RTLD_NOW);
  CHECK(library != nullptr);
  open_inner = reinterpret_cast<void* (*)()>(dlsym(library, "OpenInner"));
  CHECK(open_inner != nullptr && open_inner() != nullptr);
  // A thread that waits for the loader, which waits for the clock that it reads.
  const std::string starter = folder + "/libthread_in_constructor.so";
  CHECK(dlopen(starter.c_str(), RTLD_NOW) != nullptr);
}

// For ever, and never to be seen by a wait of ours.
void Hang() {
  fork();
  dprintf(STDOUT_FILENO, "pid %d\n", getpid());
  for (;;)
    syscall(SYS_pause);
}

void HangInQuestion() {
  Claim();
  vrank::protocol::HostWait wait{};
  wait.record.kind = vrank::protocol::RecordKind::kHostWaitLane;
  wait.target = 99;
  dprintf(STDOUT_FILENO, "asking\n");
  Channel().Ask(wait);
}

}  // namespace

int main(int, char** arguments) {
  const std::map<std::string, void (*)()> all = {
      {"clocks", Clocks},   {"sleeps", Sleeps},
      {"helpers", Helpers}, {"conditions", Conditions},
      {"locks", Locks},     {"descriptors", Descriptors},
      {"forks", Forks},     {"ranges", Ranges},
      {"opens", Opens},     {"forks_first", ForksFirst},
      {"hang", Hang},       {"question", HangInQuestion},
  };
  all.at(arguments[1])();
  printf("passed %s\n", arguments[1]);
  return 0;
}
