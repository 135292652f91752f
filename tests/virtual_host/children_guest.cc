// The program of other_processes_test: a rank with children, each of which sleeps,
// reads the clock, and says so. Prints "passed NAME" or what went wrong.

#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/guest/channel.h"
#include "tests/virtual_host/guest_check.h"

namespace {

constexpr int64_t kMillisecond = 1'000'000;

vrank::Channel& Channel() {
  return *vrank::FindChannel();
}
int64_t Now() {
  timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}
// Without what readings of the clock cost, and show.
int64_t Rounded(int64_t ns) {
  return (ns + kMillisecond / 2) / kMillisecond * kMillisecond;
}
void Sleep(int64_t ns) {
  const timespec length{ns / 1'000'000'000, ns % 1'000'000'000};
  CHECK(nanosleep(&length, nullptr) == 0);
}
template <typename Body>
pid_t Child(Body body) {
  const pid_t child = fork();
  if (child != 0)
    return child;
  body();
  _exit(0);
}
bool Ended(pid_t child, int options = 0) {
  int status = -1;
  const pid_t waited = waitpid(child, &status, options);
  CHECK(waited == 0 || (waited == child && status == 0));
  return waited == child;
}

void Work(int steps) {
  volatile int done = 0;
  while (done < steps)
    done = done + 1;
}
constexpr int kLongWork = 20'000'000;
// Far below OtherProcesses' kLongTurn on a slow machine, too: a child that computes for
// longer in several turns is not waited for.
constexpr int kShortWork = 500'000;

// The rank waits where nobody sees it.
void Waits() {
  const int64_t start = Now();
  CHECK(Ended(Child([start] {
    Sleep(300 * kMillisecond);
    CHECK(Rounded(Now() - start) == 300 * kMillisecond);
    Sleep(200 * kMillisecond);
  })));
  CHECK(Rounded(Now() - start) == 500 * kMillisecond);
}

// The rank comes back every ten milliseconds.
void Polls() {
  const pid_t child = Child([] { Sleep(95 * kMillisecond); });
  int looks = 0;
  while (!Ended(child, WNOHANG)) {
    Sleep(10 * kMillisecond);
    ++looks;
  }
  CHECK(looks == 10);
}

// In one sleep of the rank: in the order of their limits, each at its own time.
void TakesTurns() {
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  const int64_t start = Now();
  const auto sleeper = [&](int64_t period) {
    return Child([&, period] {
      for (int i = 0; i < 3; ++i) {
        Sleep(period);
        const int64_t at = Rounded(Now() - start) / kMillisecond;
        CHECK(write(pipes[1], &at, sizeof at) == sizeof at);
      }
    });
  };
  const std::vector<pid_t> children = {sleeper(50 * kMillisecond),
                                       sleeper(30 * kMillisecond)};
  Sleep(1000 * kMillisecond);
  for (const int64_t expected : {30, 50, 60, 90, 100, 150}) {
    int64_t at = 0;
    CHECK(read(pipes[0], &at, sizeof at) == sizeof at && at == expected);
  }
  for (const pid_t child : children)
    CHECK(Ended(child));
  CHECK(Rounded(Now() - start) == 1000 * kMillisecond);
}

// In one sleep of the rank: what a child starts begins when the one before has ended,
// and a thread that reads what it writes goes on then.
void Chains() {
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  const int64_t start = Now();
  const pid_t child = Child([&] {
    for (int i = 0; i < 3; ++i) {
      CHECK(Ended(Child([] { Sleep(30 * kMillisecond); })));
      CHECK(write(pipes[1], "x", 1) == 1);
    }
  });
  std::thread reader([&] {
    char byte;
    for (const int64_t expected : {30, 60, 90}) {
      CHECK(read(pipes[0], &byte, 1) == 1);
      CHECK(Rounded(Now() - start) == expected * kMillisecond);
    }
    CHECK(Ended(child));
    CHECK(Rounded(Now() - start) == 90 * kMillisecond);
  });
  Sleep(1000 * kMillisecond);
  reader.join();
  CHECK(Rounded(Now() - start) == 1000 * kMillisecond);
}

// In one sleep of the rank: a thread starts one on its way there, while others have
// limits before and behind that one's. What it starts begins at the thread's clock.
void StartsOnTheWay() {
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  const int64_t start = Now();
  const auto say = [&] {
    const int64_t at = Rounded(Now() - start) / kMillisecond;
    CHECK(write(pipes[1], &at, sizeof at) == sizeof at);
  };
  std::thread starter([&] {
    Sleep(100 * kMillisecond);
    CHECK(Ended(Child([&] {
      say();
      Sleep(50 * kMillisecond);
      say();
    })));
    say();
  });
  std::thread sleeper([&] {
    Sleep(120 * kMillisecond);
    say();
    Sleep(80 * kMillisecond);
    say();
  });
  Sleep(1000 * kMillisecond);
  starter.join();
  sleeper.join();
  for (const int64_t expected : {100, 120, 150, 150, 200}) {
    int64_t at = 0;
    CHECK(read(pipes[0], &at, sizeof at) == sizeof at && at == expected);
  }
}

// Another program, started without a fork.
void Spawns() {
  const int64_t start = Now();
  char name[] = "sleep", length[] = "0.25";
  char* const arguments[] = {name, length, nullptr};
  pid_t child = 0;
  CHECK(posix_spawnp(&child, "sleep", nullptr, nullptr, arguments, environ) == 0);
  CHECK(Ended(child));
  CHECK(Rounded(Now() - start) == 250 * kMillisecond);
}

// What is killed in its sleep holds nobody up.
void Kills() {
  const pid_t child = Child([] { Sleep(5000 * kMillisecond); });
  Sleep(10 * kMillisecond);
  CHECK(kill(child, SIGKILL) == 0);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  const int64_t start = Now();
  Sleep(10'000 * kMillisecond);
  CHECK(Rounded(Now() - start) == 10'000 * kMillisecond);
}

// The clock stands while a child computes: it is waited for, and so is its child.
void Computes() {
  const int64_t start = Now();
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  const pid_t child = Child([&] {
    Work(kLongWork);
    CHECK(Ended(Child([&] {
      Work(kLongWork);
      const int64_t at = Now();
      CHECK(write(pipes[1], &at, sizeof at) == sizeof at);
    })));
  });
  for (int i = 0; i < 100; ++i)
    Sleep(kMillisecond);
  int64_t at = 0;
  CHECK(read(pipes[0], &at, sizeof at) == sizeof at);
  CHECK(Rounded(at - start) == 0 && Ended(child));
}

// So it does while a child works for a helper that has only connected to it.
void Connects() {
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  // A name without a file (unix(7)); the kernel finds a free one.
  socklen_t length = sizeof address.sun_family;
  const auto* const any = reinterpret_cast<sockaddr*>(&address);
  CHECK(bind(listener, any, length) == 0 && listen(listener, 8) == 0);
  length = sizeof address;
  CHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  const pid_t child = Child([&] {
    for (int i = 0; i < 20; ++i) {
      const int taken = accept(listener, nullptr, nullptr);
      Work(kShortWork);
      CHECK(write(taken, "", 1) == 1 && close(taken) == 0);
    }
  });
  std::atomic<bool> waits{false}, over{false};
  std::thread helper([&] {
    for (int i = 1; i <= 20; ++i) {
      const int64_t start = Now();
      Sleep(10 * kMillisecond);
      const int to = socket(AF_UNIX, SOCK_STREAM, 0);
      waits = true;
      CHECK(connect(to, reinterpret_cast<sockaddr*>(&address), length) == 0);
      char byte;
      CHECK(read(to, &byte, 1) == 1 && close(to) == 0);
      waits = false;
      CHECK(Rounded(Now() - start) == 10 * kMillisecond);
    }
    over = true;
  });
  while (!over) {
    Sleep(kMillisecond);
    CHECK(!waits);
  }
  helper.join();
  CHECK(Ended(child));
}

// A helper asks a child, wakes another helper, and reads the answer: whether it waits
// for that, and the other one goes first, must not depend on how long the child takes.
void AnswersInOrder() {
  for (const int work : {0, 5 * kShortWork}) {
    int questions[2], answers[2];
    CHECK(pipe(questions) == 0 && pipe(answers) == 0);
    const pid_t child = Child([&] {
      char byte;
      for (int i = 0; i < 5; ++i) {
        CHECK(read(questions[0], &byte, 1) == 1);
        Work(work);
        CHECK(write(answers[1], &byte, 1) == 1);
      }
    });
    sem_t semaphore;
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    std::string order;
    std::thread woken([&] {
      for (int i = 0; i < 5; ++i) {
        CHECK(sem_wait(&semaphore) == 0);
        order += 'w';
      }
    });
    std::thread asks([&] {
      char byte = 0;
      for (int i = 0; i < 5; ++i) {
        Sleep(10 * kMillisecond);
        CHECK(write(questions[1], &byte, 1) == 1 && sem_post(&semaphore) == 0);
        CHECK(read(answers[0], &byte, 1) == 1);
        order += 'a';
      }
    });
    Sleep(1000 * kMillisecond);
    asks.join();
    woken.join();
    CHECK(order == "awawawawaw" && Ended(child));
  }
}

// A helper reads what a child writes after its sleep in two parts, and wakes another
// helper in between.
void ReadsInOrder() {
  for (const int work : {0, 5 * kShortWork}) {
    int parts[2];
    CHECK(pipe(parts) == 0);
    const pid_t child = Child([&] {
      for (int i = 0; i < 5; ++i) {
        Sleep(10 * kMillisecond);
        CHECK(write(parts[1], "h", 1) == 1);
        Work(work);
        CHECK(write(parts[1], "b", 1) == 1);
      }
    });
    sem_t semaphore;
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    std::string order;
    std::thread woken([&] {
      for (int i = 0; i < 5; ++i) {
        CHECK(sem_wait(&semaphore) == 0);
        order += 'w';
      }
    });
    std::thread reads([&] {
      for (int i = 0; i < 5; ++i) {
        char byte;
        CHECK(read(parts[0], &byte, 1) == 1 && byte == 'h');
        CHECK(sem_post(&semaphore) == 0);
        CHECK(read(parts[0], &byte, 1) == 1 && byte == 'b');
        order += 'r';
      }
    });
    Sleep(1000 * kMillisecond);
    reads.join();
    woken.join();
    CHECK(order == "rwrwrwrwrw" && Ended(child));
  }
}

// A fork of a large process takes milliseconds, during which other threads acquire the
// scheduler's lock. The child inherits the lock as held, and no thread that releases
// it.
void ForksBesideThreads() {
  constexpr size_t kBytes = 256 << 20, kPage = 4096;
  void* const ballast =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(ballast != MAP_FAILED && madvise(ballast, kBytes, MADV_NOHUGEPAGE) == 0);
  for (size_t at = 0; at < kBytes; at += kPage)
    static_cast<volatile char*>(ballast)[at] = 1;
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      int ends[2];
      CHECK(pipe(ends) == 0);
      for (char byte = 0; !over;)
        CHECK(write(ends[1], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1);
    });
  for (int i = 0; i < 40; ++i)
    CHECK(Ended(Child([] {})));
  over = true;
  for (std::thread& thread : threads)
    thread.join();
}

}  // namespace

int main(int, char** arguments) {
  const std::map<std::string, void (*)()> all = {
      {"waits", Waits},
      {"polls", Polls},
      {"takes_turns", TakesTurns},
      {"spawns", Spawns},
      {"kills", Kills},
      {"computes", Computes},
      {"connects", Connects},
      {"chains", Chains},
      {"answers_in_order", AnswersInOrder},
      {"reads_in_order", ReadsInOrder},
      {"starts_on_the_way", StartsOnTheWay},
      {"forks_beside_threads", ForksBesideThreads},
  };
  CHECK(Channel().ClaimRank());
  all.at(arguments[1])();
  printf("passed %s\n", arguments[1]);
  return 0;
}
