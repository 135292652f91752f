// The program of thread_order_test: threads that wait for each other, and what comes
// out in which order. Prints "passed NAME" or what went wrong.

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/guest/activity_channel.h"
#include "base/guest/channel.h"
#include "tests/virtual_host/guest_check.h"

namespace {

constexpr int kThreads = 6;
constexpr int64_t kMillisecond = 1'000'000;

int64_t Now(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now;
  CHECK(clock_gettime(clock, &now) == 0);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}
timespec At(int64_t ns) {
  return {ns / 1'000'000'000, ns % 1'000'000'000};
}
// The rank sleeps, which lets all threads get where they wait.
void Sleep(int64_t ns = kMillisecond) {
  const timespec length = At(ns);
  CHECK(nanosleep(&length, nullptr) == 0);
}

// Threads that start to wait one after the other, and say when they have got on.
struct Waiters {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  sem_t semaphore{};
  std::atomic<int> got_on{0};
  int order[kThreads] = {};
  std::vector<std::thread> threads;

  Waiters() { CHECK(sem_init(&semaphore, 0, 0) == 0); }
  void Start(std::function<void()> wait) {
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, wait, i] {
        wait();
        // Computing, it could be overtaken by those that were woken with it.
        volatile int done = 0;
        while (done < (kThreads - i) * 200'000)
          done = done + 1;
        order[got_on.fetch_add(1)] = i;
      });
      Sleep();
    }
    CHECK(got_on == 0);
  }
  void WaitForCondition() {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_cond_wait(&condition, &mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
  }
  void CheckOrder() {
    for (std::thread& thread : threads)
      thread.join();
    for (int i = 0; i < kThreads; ++i)
      CHECK(order[i] == i);
  }
};

void Signals() {
  Waiters waiters;
  waiters.Start([&] { waiters.WaitForCondition(); });
  for (int i = 0; i < kThreads; ++i)
    CHECK(pthread_cond_signal(&waiters.condition) == 0);
  waiters.CheckOrder();
}

void SignalsOneByOne() {
  Waiters waiters;
  waiters.Start([&] { waiters.WaitForCondition(); });
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_cond_signal(&waiters.condition) == 0);
    Sleep();
    CHECK(waiters.got_on == i + 1);
  }
  waiters.CheckOrder();
}

void Broadcasts() {
  Waiters waiters;
  waiters.Start([&] { waiters.WaitForCondition(); });
  CHECK(pthread_mutex_lock(&waiters.mutex) == 0);
  CHECK(pthread_cond_broadcast(&waiters.condition) == 0);
  CHECK(pthread_mutex_unlock(&waiters.mutex) == 0);
  waiters.CheckOrder();
}

void Posts() {
  Waiters waiters;
  waiters.Start([&] { CHECK(sem_wait(&waiters.semaphore) == 0); });
  for (int i = 0; i < kThreads; ++i)
    CHECK(sem_post(&waiters.semaphore) == 0);
  waiters.CheckOrder();
}

// Those go on before it that the joined thread has called before it ended.
void Joins() {
  Waiters waiters;
  waiters.Start([&] { waiters.WaitForCondition(); });
  int got_on = 0;
  std::thread joiner([&] {
    std::thread caller([&] {
      Sleep();
      for (int i = 0; i < kThreads; ++i)
        CHECK(pthread_cond_signal(&waiters.condition) == 0);
    });
    caller.join();
    got_on = waiters.got_on;
  });
  joiner.join();
  CHECK(got_on == kThreads);
  waiters.CheckOrder();
}

// The end of a thread does not get lost, however it ends, and joining fails as ever.
void JoinsAnyEnd() {
  const auto exits = [](void* argument) -> void* { pthread_exit(argument); };
  const auto returns = [](void* argument) { return argument; };
  const auto waits = [](void*) -> void* {
    for (;;)
      pause();
  };
  std::thread joiner([&] {
    int number = 0;
    void* result = nullptr;
    pthread_t thread;
    for (void* (*const function)(void*) : {+exits, +returns}) {
      CHECK(pthread_create(&thread, nullptr, function, &number) == 0);
      CHECK(pthread_join(thread, &result) == 0 && result == &number);
    }
    CHECK(pthread_create(&thread, nullptr, returns, nullptr) == 0);
    Sleep();  // it ends meanwhile
    CHECK(pthread_join(thread, nullptr) == 0);
    CHECK(pthread_create(&thread, nullptr, waits, nullptr) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(pthread_join(pthread_self(), nullptr) == EDEADLK);
  });
  joiner.join();
}

void Barriers() {
  pthread_barrier_t barrier;
  CHECK(pthread_barrier_init(&barrier, nullptr, 0) == EINVAL);
  for (int round = 0; round < 2; ++round) {  // a new one may be at the same place
    CHECK(pthread_barrier_init(&barrier, nullptr, kThreads + 1) == 0);
    for (int use = 0; use < 2; ++use) {
      Waiters waiters;
      waiters.Start([&] { CHECK(pthread_barrier_wait(&barrier) == 0); });
      std::thread last([&] {
        CHECK(pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
      });
      last.join();
      waiters.CheckOrder();
    }
    CHECK(pthread_barrier_destroy(&barrier) == 0);
  }
}

// Each limit ends its own wait, at its time, and no other one.
void Limits() {
  Waiters waiters;
  const int64_t start = Now(CLOCK_REALTIME);
  std::atomic<int> next{0};
  waiters.Start([&] {
    // The later a thread comes, the later its limit.
    const int64_t limit = start + (100 + 10 * next.fetch_add(1)) * kMillisecond;
    const timespec until = At(limit);
    CHECK(pthread_mutex_lock(&waiters.mutex) == 0);
    CHECK(pthread_cond_timedwait(&waiters.condition, &waiters.mutex, &until) ==
          ETIMEDOUT);
    CHECK(Now(CLOCK_REALTIME) / kMillisecond == limit / kMillisecond);
    CHECK(pthread_mutex_unlock(&waiters.mutex) == 0);
  });
  Sleep(1000 * kMillisecond);
  waiters.CheckOrder();
}

// A signal is not lost with a thread that leaves by its limit, or by being cancelled.
void Cancels() {
  struct Shared {
    pthread_mutex_t mutex;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    std::atomic<int> cleaned{0}, woken{0};
  } shared;
  pthread_mutexattr_t checked;
  CHECK(pthread_mutexattr_init(&checked) == 0);
  CHECK(pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK) == 0);
  CHECK(pthread_mutex_init(&shared.mutex, &checked) == 0);
  const auto body = [](void* argument) -> void* {
    auto* const all = static_cast<Shared*>(argument);
    CHECK(pthread_mutex_lock(&all->mutex) == 0);
    pthread_cleanup_push(
        [](void* cleaned) {
          auto* const each = static_cast<Shared*>(cleaned);
          CHECK(pthread_mutex_unlock(&each->mutex) == 0);  // it holds it
          ++each->cleaned;
        },
        all);
    CHECK(pthread_cond_wait(&all->condition, &all->mutex) == 0);
    ++all->woken;
    pthread_cleanup_pop(0);
    CHECK(pthread_mutex_unlock(&all->mutex) == 0);
    return nullptr;
  };
  pthread_t first, second;
  CHECK(pthread_create(&first, nullptr, body, &shared) == 0);
  Sleep();
  CHECK(pthread_create(&second, nullptr, body, &shared) == 0);
  Sleep();
  CHECK(pthread_cancel(first) == 0);
  CHECK(pthread_join(first, nullptr) == 0);
  CHECK(shared.cleaned == 1);
  CHECK(pthread_cond_signal(&shared.condition) == 0);
  CHECK(pthread_join(second, nullptr) == 0);
  CHECK(shared.cleaned == 1 && shared.woken == 1);
}

// A condition that processes share is the C library's own.
void Shares() {
  struct Shared {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int said;
  };
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  auto* const shared = static_cast<Shared*>(memory);
  pthread_mutexattr_t mutex;
  pthread_condattr_t condition;
  CHECK(pthread_mutexattr_init(&mutex) == 0 && pthread_condattr_init(&condition) == 0);
  CHECK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_mutex_init(&shared->mutex, &mutex) == 0);
  CHECK(pthread_cond_init(&shared->condition, &condition) == 0);
  const pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(&shared->mutex);
    shared->said = 1;
    pthread_cond_signal(&shared->condition);
    pthread_mutex_unlock(&shared->mutex);
    _exit(0);
  }
  CHECK(pthread_mutex_lock(&shared->mutex) == 0);
  while (shared->said == 0)
    CHECK(pthread_cond_wait(&shared->condition, &shared->mutex) == 0);
  CHECK(pthread_mutex_unlock(&shared->mutex) == 0);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// So is such a barrier.
void SharesABarrier() {
  void* const memory = mmap(nullptr, sizeof(pthread_barrier_t), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED);
  auto* const barrier = static_cast<pthread_barrier_t*>(memory);
  pthread_barrierattr_t attributes;
  CHECK(pthread_barrierattr_init(&attributes) == 0);
  CHECK(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_barrier_init(barrier, &attributes, 2) == 0);
  const pid_t child = fork();
  const int result = pthread_barrier_wait(barrier);
  const bool passed = result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD;
  if (child == 0)
    _exit(passed ? 0 : 1);
  int status = -1;
  CHECK(passed && waitpid(child, &status, 0) == child && status == 0);
  CHECK(pthread_barrier_destroy(barrier) == 0);
}

// A thread that was woken first waits for one that was woken with it, out of sight.
void Crosses() {
  Waiters waiters;
  std::atomic<bool> second_is_on{false};
  std::thread first([&] {
    waiters.WaitForCondition();
    while (!second_is_on) {
      // A wait that only the kernel knows of.
      CHECK(syscall(SYS_poll, nullptr, 0, 1) == 0);
    }
  });
  Sleep();
  std::thread second([&] {
    waiters.WaitForCondition();
    second_is_on = true;
  });
  Sleep();
  CHECK(pthread_cond_broadcast(&waiters.condition) == 0);
  first.join();
  second.join();
}

// Who wants a mutex that the profiler's thread holds keeps its turn.
void Hidden() {
  vrank::Channel& channel = *vrank::FindChannel();
  const auto launch = [&] {
    vrank::protocol::Kernel record{};
    record.record.kind = vrank::protocol::RecordKind::kKernel;
    record.lane = 1;
    channel.Emit(record);
    channel.LetHelpersRun();
  };
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  std::atomic<bool> held{false}, taken{false}, was_taken{false};
  launch();
  std::thread hidden([&] {
    channel.activity()->HideThread();
    CHECK(pthread_mutex_lock(&mutex) == 0);
    held = true;
    CHECK(syscall(SYS_poll, nullptr, 0, 5) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
  });
  while (!held)
    CHECK(syscall(SYS_sched_yield) == 0);
  std::thread beside([&] {
    launch();
    was_taken = taken.load();
  });
  CHECK(pthread_mutex_lock(&mutex) == 0);
  taken = true;
  CHECK(pthread_mutex_unlock(&mutex) == 0);
  beside.join();
  hidden.join();
  CHECK(was_taken);
}

}  // namespace

int main(int, char** arguments) {
  const std::map<std::string, void (*)()> all = {
      {"signals", Signals},
      {"signals_one_by_one", SignalsOneByOne},
      {"broadcasts", Broadcasts},
      {"posts", Posts},
      {"limits", Limits},
      {"cancels", Cancels},
      {"shares", Shares},
      {"crosses", Crosses},
      {"hidden", Hidden},
      {"joins", Joins},
      {"joins_any_end", JoinsAnyEnd},
      {"barriers", Barriers},
      {"shares_a_barrier", SharesABarrier},
  };
  CHECK(vrank::FindChannel()->ClaimRank());
  all.at(arguments[1])();
  printf("passed %s\n", arguments[1]);
  return 0;
}
