// Which threads that issue no work compute for longer than an iteration has.

#include "emulator/world/thread_cpu_log.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using Bounds = std::vector<std::pair<uint64_t, uint64_t>>;
using ::testing::IsEmpty;

constexpr pid_t kMain = 1, kBackward = 2, kPrefetch = 3, kWorker = 10;

// Iterations of `ops` ops, one after the other.
Bounds Iterations(size_t count, uint64_t ops) {
  Bounds bounds;
  for (size_t i = 0; i < count; ++i)
    bounds.emplace_back(i * ops, (i + 1) * ops - 1);
  return bounds;
}

TEST(ThreadCpuLogTest, AveragesTheWorkersOfATeam) {
  ThreadCpuLog log;
  log.NoteIssuer(kMain);
  log.NoteIssuer(kBackward);
  // Two workers take turns: each prepares every other batch in 300 us.
  for (int64_t i = 0; i <= 20; ++i)
    log.Add(static_cast<uint64_t>(10 * i),
            {{kMain, false, 1000 + 5'000 * i, "python"},
             {kBackward, false, 2'000 * i, "pt_autograd_0"},
             {kPrefetch, false, 100 * i, "python"},
             {kWorker, true, 7'000'000 + 300'000 * (i / 2), "pt_data_worker"},
             {kWorker + 1, true, 9'000'000 + 300'000 * ((i + 1) / 2), "pt_data_worker"},
             {kWorker + 2, true, 123'000'000, "python"}},  // a fork server
            /*program_ns=*/6'000 * i);
  const auto teams = log.ByIteration(Iterations(20, 10));
  ASSERT_EQ(teams.size(), 3);
  EXPECT_EQ(teams[0].name, "pt_data_worker");
  EXPECT_TRUE(teams[0].in_child);
  EXPECT_EQ(teams[0].threads, 2);
  EXPECT_NEAR(static_cast<double>(teams[0].cpu_ns), 150'000, 10'000);
  EXPECT_TRUE(teams[1].issues);
  EXPECT_EQ(teams[1].threads, 2);
  EXPECT_NEAR(static_cast<double>(teams[1].cpu_ns), 6'000, 10);
  EXPECT_EQ(teams[2].name, "python");
  EXPECT_FALSE(teams[2].in_child);
  EXPECT_NEAR(static_cast<double>(teams[2].cpu_ns), 100, 1);
}

// A thread that compiles, or loads what it works on, has done that by then.
TEST(ThreadCpuLogTest, LeavesOutTheFirstIteration) {
  ThreadCpuLog log;
  for (int64_t i = 0; i <= 8; ++i)
    log.Add(static_cast<uint64_t>(3 * i + 2),
            {{kWorker, true, 9'000'000'000 + 1'000 * i, "loader"}}, 0);
  const auto teams = log.ByIteration(Iterations(8, 3));
  ASSERT_EQ(teams.size(), 1);
  EXPECT_NEAR(static_cast<double>(teams[0].cpu_ns), 1'000, 10);
}

// Two workers prepare ten batches of 100 us each, and have done so after six of the ten
// iterations.
TEST(ThreadCpuLogTest, CountsALoaderWhoseDataEnd) {
  ThreadCpuLog log;
  log.Add(0, {}, 0);
  for (int64_t i = 0; i < 10; ++i) {
    const int64_t made = std::min<int64_t>(5, i + 1);
    log.Add(static_cast<uint64_t>(10 * i + 9),
            {{kWorker, true, 100'000 * made, "loader"},
             {kWorker + 1, true, 100'000 * made, "loader"}},
            0);
  }
  const auto teams = log.ByIteration(Iterations(10, 10));
  ASSERT_EQ(teams.size(), 1);
  EXPECT_EQ(teams[0].threads, 2);
  EXPECT_LE(teams[0].cpu_ns, 50'000);
  EXPECT_GE(teams[0].cpu_ns, 30'000);
}

// Workers are started anew in every epoch of four iterations.
TEST(ThreadCpuLogTest, CountsWorkersOfOneMoment) {
  ThreadCpuLog log;
  for (int64_t i = 0; i <= 24; ++i) {
    const auto epoch = static_cast<pid_t>(i / 4);
    log.Add(static_cast<uint64_t>(10 * i),
            {{kWorker + 2 * epoch, true, 100'000 * (i % 4 + 1), "loader"},
             {kWorker + 2 * epoch + 1, true, 100'000 * (i % 4 + 1), "loader"}},
            0);
  }
  const auto teams = log.ByIteration(Iterations(24, 10));
  ASSERT_EQ(teams.size(), 1);
  EXPECT_EQ(teams[0].threads, 2);
  EXPECT_NEAR(static_cast<double>(teams[0].cpu_ns), 100'000, 20'000);
}

TEST(ThreadCpuLogTest, SaysNothingOfLessThanAnIteration) {
  ThreadCpuLog log;
  EXPECT_THAT(log.ByIteration(Iterations(4, 100)), IsEmpty());
  log.Add(210, {{kWorker, true, 0, "loader"}}, 0);
  log.Add(290, {{kWorker, true, 1'000'000, "loader"}}, 0);
  EXPECT_THAT(log.ByIteration(Iterations(4, 100)), IsEmpty());
  EXPECT_THAT(log.ByIteration({}), IsEmpty());
  log.Add(350, {{kWorker, true, 1'400'000, "loader"}}, 0);
  const auto teams = log.ByIteration(Iterations(4, 100));
  ASSERT_EQ(teams.size(), 1);
  EXPECT_EQ(teams[0].cpu_ns, 1'000'000);
}

// What a new program has used before it was seen is its start.
TEST(ThreadCpuLogTest, LeavesOutHowAProgramStarts) {
  ThreadCpuLog log;
  log.Add(0, {}, 0);
  log.Add(20, {}, 0);
  log.Add(29, {{kWorker, true, 5'000'000'000, "loader", true}}, 0);
  log.Add(39, {{kWorker, true, 5'000'000'240, "loader", true}}, 0);
  const auto teams = log.ByIteration(Iterations(4, 10));
  ASSERT_EQ(teams.size(), 1);
  EXPECT_LE(teams[0].cpu_ns, 240);
}

TEST(ThreadCpuLogTest, KeepsALongRunInBoundedMemory) {
  ThreadCpuLog log;
  constexpr int64_t kLooks = 100'000;
  for (int64_t i = 0; i < kLooks; ++i)
    log.Add(static_cast<uint64_t>(i), {{kWorker, true, 7 * i, "loader"}}, 0);
  const auto teams = log.ByIteration(Iterations(kLooks / 10, 10));
  ASSERT_EQ(teams.size(), 1);
  EXPECT_EQ(teams[0].cpu_ns, 70);
}

void ComputeInThisThread(int64_t ns) {
  timespec now{};
  do
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while (int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec < ns);
}

TEST(ThreadCpuLogTest, SeesThreadsOfThisProcessAndOfItsChildren) {
  std::thread beside([] {
    pthread_setname_np(pthread_self(), "prefetch");
    ComputeInThisThread(20'000'000);
    pause();
  });
  const pid_t child = fork();
  if (child == 0) {
    ComputeInThisThread(30'000'000);
    pause();
  }
  std::vector<ThreadCpu> seen;
  const auto used = [&seen](bool in_child, const std::string& name) {
    int64_t ns = 0;
    for (const ThreadCpu& thread : seen)
      if (thread.in_child == in_child && (name.empty() || thread.name == name))
        ns += thread.cpu_ns;
    return ns;
  };
  for (int look = 0; look < 2000 && (used(false, "prefetch") < 20'000'000 ||
                                     used(true, "") < 30'000'000);
       ++look) {
    usleep(5'000);
    seen = CpuOfThreads(getpid());
  }
  EXPECT_GE(used(false, "prefetch"), 20'000'000);
  EXPECT_GE(used(true, ""), 30'000'000);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  pthread_cancel(beside.native_handle());
  beside.join();
}

}  // namespace
}  // namespace vrank::emulator
