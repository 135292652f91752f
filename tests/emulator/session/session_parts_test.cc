// The parts of a session that need no ranks: casting, iterations, the hang detector.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emulator/watch/hang_detector.h"
#include "emulator/watch/quiet_watch.h"
#include "emulator/watch/spin_detector.h"
#include "emulator/world/cast.h"
#include "emulator/world/result_collector.h"
#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

using schedule::Milliseconds;
using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(CastTest, TheLowestRealRankOfAStageLeads) {
  const graph::Layout layout = graph::Layout::Parse("tp=2,pp=2,dp=2", 8).value();
  const std::vector<int32_t> real = {1, 3, 4};
  const auto cast = CastByClass(layout, real, false);
  ASSERT_TRUE(cast.ok()) << cast.status().ToString();
  ASSERT_EQ(cast->size(), 5u);
  for (const VirtualRank& rank : *cast) {
    EXPECT_EQ(rank.part, VirtualRank::Part::kFollower);
    int32_t lowest = 8;
    for (const int32_t candidate : real)
      if (layout.ClassOf(candidate) == layout.ClassOf(rank.rank))
        lowest = std::min(lowest, candidate);
    EXPECT_EQ(rank.leader, lowest) << rank.rank;
  }
}

TEST(CastTest, RankZeroLeadsOnlyWhereItIsAlone) {
  const graph::Layout layout = graph::Layout::Parse("dp=4", 4).value();
  for (const auto& [real, leader] : {std::pair(std::vector<int32_t>{0}, 0),
                                     std::pair(std::vector<int32_t>{0, 3, 2}, 2)}) {
    const auto cast = CastByClass(layout, real, false);
    ASSERT_TRUE(cast.ok()) << cast.status().ToString();
    for (const VirtualRank& rank : *cast)
      EXPECT_EQ(rank.leader, leader);
  }
}

TEST(CastTest, RanksOnTheirOwnFollowNobody) {
  const graph::Layout layout = graph::Layout::Parse("dp=4", 4).value();
  const std::vector<int32_t> real = {1}, alone = {3, 1, 0};
  const auto cast = CastByClass(layout, real, false, alone);
  ASSERT_TRUE(cast.ok()) << cast.status().ToString();
  ASSERT_EQ(cast->size(), 3u);
  for (const VirtualRank& rank : *cast)
    EXPECT_EQ(rank.part, rank.rank == 2 ? VirtualRank::Part::kFollower
                                        : VirtualRank::Part::kAbsent);
}

TEST(CastTest, AStageWithoutARealRankIsNamedWithAWayOut) {
  const graph::Layout layout = graph::Layout::Parse("tp=2,pp=4", 8).value();
  const std::vector<int32_t> real = {0};
  const auto cast = CastByClass(layout, real, false);
  ASSERT_FALSE(cast.ok());
  const std::string message(cast.status().message());
  EXPECT_THAT(message, HasSubstr("stages 1-3 of 4"));
  EXPECT_THAT(message, HasSubstr("--real 0,2,4,6"));
  EXPECT_THAT(message, HasSubstr("--assume-absent"));
  const auto absent = CastByClass(layout, real, true);
  ASSERT_TRUE(absent.ok());
  EXPECT_EQ(std::count_if(absent->begin(), absent->end(),
                          [](const VirtualRank& rank) {
                            return rank.part == VirtualRank::Part::kAbsent;
                          }),
            6);
}

class IterationsTest : public testing::Test {
 protected:
  IterationsTest() { collector_.AddRank(0, &program_, true); }
  void Range(const std::string& name, bool begin, int64_t ns) {
    collector_.OnRange(0, program_.AddName(name), begin, graph::Stamp{.ns = ns});
  }
  graph::Program program_{true};
  ResultCollector collector_{
      ResultCollector::Options{*MakeIterationPattern(kDefaultIterationRange)}};
};

TEST_F(IterationsTest, CountsTheOutermostMatchingRange) {
  Range("train", true, 0);
  Range("Iteration 1", true, 10);
  Range("step", true, 20);
  Range("step", false, 30);
  Range("Iteration 1", false, 40);
  Range("ProfilerStep#2", true, 50);
  Range("forward", true, 60);
  Range("forward", false, 70);
  Range("", false, 80);  // a nameless end closes what was opened last
  Range("train", false, 90);
  ASSERT_EQ(collector_.iterations(0).size(), 2u);
  EXPECT_EQ(collector_.iterations(0)[0].begin.ns, 10);
  EXPECT_EQ(collector_.iterations(0)[0].end.ns, 40);
  EXPECT_EQ(collector_.iterations(0)[1].end.ns, 80);
  EXPECT_EQ(collector_.CompletedIterations(), 2u);
}

TEST_F(IterationsTest, IgnoresAnEndWithoutABegin) {
  Range("iteration", false, 10);
  EXPECT_TRUE(collector_.iterations(0).empty());
}

TEST(IterationPatternTest, RefusesABrokenExpression) {
  EXPECT_THAT(std::string(MakeIterationPattern("(").status().message()),
              HasSubstr("--iteration-range '('"));
}

// A child that waits for ever.
class SleepingChild {
 public:
  SleepingChild() : pid_(fork()) {
    if (pid_ == 0)
      while (true)
        pause();
    while (LookAtProcess(pid_)->runnable)
      std::this_thread::yield();
  }
  ~SleepingChild() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

// A child that runs for ever.
class BusyChild {
 public:
  BusyChild() : pid_(fork()) {
    if (pid_ == 0)
      for (volatile bool forever = true; forever;) {
      }
  }
  ~BusyChild() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

TEST(HangDetectorTest, NamesAProcessThatDoesNothing) {
  const SleepingChild child;
  HangDetector detector(milliseconds(1000));
  const auto start = HangDetector::Clock::now();
  const std::vector<HangDetector::Candidate> candidates = {{5, {child.pid()}}};
  EXPECT_FALSE(detector.Look(start, candidates).has_value());
  EXPECT_FALSE(detector.Look(start + milliseconds(900), candidates).has_value());
  const auto found = detector.Look(start + milliseconds(1100), candidates);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->kind, HangDetector::Finding::Kind::kIdle);
  detector.Moved();
  EXPECT_FALSE(detector.Look(start + milliseconds(2500), candidates).has_value());
}

// A shell that waits for what it has started does nothing itself.
TEST(HangDetectorTest, LooksAtAllProcessesOfARank) {
  const SleepingChild shell, waits;
  const BusyChild works;
  HangDetector detector(milliseconds(1000));
  const auto start = HangDetector::Clock::now();
  for (int second = 0; second < 5; ++second)
    EXPECT_FALSE(detector
                     .Look(start + milliseconds(1000 * second),
                           {{4, {waits.pid()}}, {5, {shell.pid(), works.pid()}}})
                     .has_value())
        << "rank 4 may wait for rank 5, which is at work";
  // As above, where each process is gone before anybody could see what it did.
  for (int second = 5; second < 10; ++second)
    EXPECT_FALSE(detector
                     .Look(start + milliseconds(1000 * second),
                           {{5, {shell.pid(), 1 << 30 | second}}})
                     .has_value());
}

// A child that waits for a child of its own, which runs for ever.
class WaitingParent {
 public:
  WaitingParent() : pid_(fork()) {
    if (pid_ != 0)
      return;
    const pid_t parent = getpid();
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (getppid() == parent) {
      }
      _exit(0);
    }
    while (true)
      pause();
  }
  ~WaitingParent() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

// ... though it loads no library of vrank's, and so is none of the rank's processes.
TEST(HangDetectorTest, WhatAProcessHasStartedIsAtWork) {
  const WaitingParent parent;
  while (ChildrenOf(parent.pid()).empty())
    std::this_thread::yield();
  HangDetector detector(milliseconds(1000));
  const auto start = HangDetector::Clock::now();
  for (int second = 0; second < 5; ++second)
    EXPECT_FALSE(
        detector.Look(start + milliseconds(1000 * second), {{5, {parent.pid()}}})
            .has_value());
}

class QuietWatchTest : public testing::Test {
 protected:
  QuietWatchTest() : link_(GuestLink::Create({}).value()) {
    link_->ProcessConnected(1);
  }
  // The look that comes so long after the start. `cpu_ms`: nullopt: a thread runs.
  milliseconds LookAt(int ms, std::optional<int> cpu_ms) {
    cpu_ms_ = cpu_ms;
    return watch_.Look(QuietWatch::Clock::time_point(milliseconds(1000 + ms)),
                       {link_.get()});
  }

  std::unique_ptr<GuestLink> link_;
  std::optional<int> cpu_ms_;
  QuietWatch watch_{[this](pid_t) -> std::optional<uint64_t> {
    return cpu_ms_.has_value() ? std::optional<uint64_t>(*cpu_ms_ * 1'000'000ull)
                               : std::nullopt;
  }};
};

TEST_F(QuietWatchTest, ThreadsThatLookAgainForAMomentAreQuiet) {
  EXPECT_EQ(LookAt(0, 0), milliseconds(0));  // nothing to compare it with
  for (int look = 1; look < 40; ++look)
    LookAt(10 * look, look % 3 == 0 ? std::nullopt : std::optional(look / 8));
  EXPECT_EQ(LookAt(400, std::nullopt), milliseconds(0)) << "one runs now";
  EXPECT_EQ(LookAt(410, 5), milliseconds(400));
}

TEST_F(QuietWatchTest, AThreadThatComputesIsNot) {
  for (int look = 0; look < 40; ++look)
    EXPECT_LT(LookAt(10 * look, look % 3 == 0 ? std::nullopt : std::optional(look)),
              milliseconds(100));
}

TEST_F(QuietWatchTest, AThreadThatWaitsForACoreIsNot) {
  for (int look = 0; look < 40; ++look)
    LookAt(10 * look, 0);
  for (int look = 40; look < 70; ++look)
    EXPECT_EQ(LookAt(10 * look, std::nullopt), milliseconds(0));
  EXPECT_EQ(LookAt(700, 0), milliseconds(0));
}

// Each sleep moves its clock, and takes some CPU time.
TEST(HangDetectorTest, NamesARankThatSleepsAgainAndAgain) {
  const SleepingChild sleeps;
  const BusyChild works;
  for (const bool works_too : {false, true}) {
    HangDetector detector(milliseconds(1000));
    const auto start = HangDetector::Clock::now();
    std::optional<HangDetector::Finding> found;
    for (int look = 0; look < 20 && !found.has_value(); ++look)
      found = detector.Look(
          start + milliseconds(250 * look),
          {{5, {works_too ? works.pid() : sleeps.pid()}, false, 1'000'000 * look}});
    ASSERT_EQ(found.has_value(), !works_too);
    if (found.has_value()) {
      EXPECT_EQ(found->kind, HangDetector::Finding::Kind::kSleeps);
    }
  }
}

TEST(HangDetectorTest, NamesTheOneThatSpinsFirst) {
  const SleepingChild waits;
  const BusyChild spins;
  HangDetector detector(milliseconds(1000));
  const auto start = HangDetector::Clock::now();
  const std::vector<HangDetector::Candidate> candidates = {{4, {waits.pid()}},
                                                           {5, {spins.pid()}, true}};
  EXPECT_FALSE(detector.Look(start, candidates).has_value());
  const auto found = detector.Look(start + milliseconds(1100), candidates);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->kind, HangDetector::Finding::Kind::kSpins);
}

TEST(SpinDetectorTest, NamesAProcessOnceAndThenCountsItAsHung) {
  const BusyChild spins;
  const SleepingChild waits;
  SpinDetector detector(milliseconds(50));
  const std::vector<SpinDetector::Candidate> candidates = {
      {4, {waits.pid()}, 8}, {5, {waits.pid(), spins.pid()}, 8}};
  int told = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(50);
  while (detector.hanging().empty() && std::chrono::steady_clock::now() < deadline) {
    if (const auto found = detector.Look(candidates); found.has_value()) {
      ++told;
      EXPECT_EQ(found->rank, 5);
      EXPECT_EQ(found->pid, spins.pid());
      EXPECT_GE(found->cpu, milliseconds(50));
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(told, 1);
  ASSERT_EQ(detector.hanging().count(5), 1u);
  EXPECT_EQ(detector.hanging().count(4), 0u);
  EXPECT_GE(detector.hanging().at(5).cpu, schedule::kSpinLimits * milliseconds(50));
  // A call, or a new process, is something else than spinning.
  EXPECT_FALSE(detector.Look({{5, {waits.pid(), spins.pid()}, 16}}).has_value());
  EXPECT_TRUE(detector.hanging().empty());
}

TEST(HangDetectorTest, TellsOfAStoppedProcessOnceAndWaitsForIt) {
  const SleepingChild child, waits_for_it;
  kill(child.pid(), SIGSTOP);
  waitpid(child.pid(), nullptr, WUNTRACED);
  HangDetector detector(milliseconds(1000));
  const auto start = HangDetector::Clock::now();
  const std::vector<HangDetector::Candidate> candidates = {{4, {waits_for_it.pid()}},
                                                           {5, {child.pid()}}};
  int told = 0;
  for (int second = 0; second < 100; ++second) {
    const auto found = detector.Look(start + milliseconds(1000 * second), candidates);
    EXPECT_TRUE(detector.any_stopped());
    if (!found.has_value())
      continue;
    ++told;
    EXPECT_EQ(found->kind, HangDetector::Finding::Kind::kStopped);
    EXPECT_EQ(found->rank, 5);
  }
  EXPECT_EQ(told, 1);
  // Once it runs again, both count anew.
  kill(child.pid(), SIGCONT);
  waitpid(child.pid(), nullptr, WCONTINUED);
  EXPECT_FALSE(detector.Look(start + milliseconds(100'000), candidates).has_value());
  EXPECT_FALSE(detector.any_stopped());
}

// A process that has a second thread, which alone is stopped: by its tracer, which is
// the process that started it.
TEST(HangDetectorTest, SeesASingleStoppedThread) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::thread([&] {
      const auto tid = static_cast<pid_t>(syscall(SYS_gettid));
      if (write(pipe_ends[1], &tid, sizeof(tid)) != sizeof(tid))
        _exit(1);
      while (true)
        pause();
    }).join();
  }
  pid_t thread = 0;
  ASSERT_EQ(read(pipe_ends[0], &thread, sizeof(thread)), ssize_t{sizeof(thread)});
  const bool traced = ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0 &&
                      ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0;
  if (traced) {
    waitpid(thread, nullptr, __WALL);
    EXPECT_TRUE(LookAtProcess(child)->stopped);
    ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  if (!traced)
    GTEST_SKIP() << "ptrace is not permitted here";
}

TEST(HangDetectorTest, TellsOfAStopSoonWhateverTheLimit) {
  const SleepingChild child;
  kill(child.pid(), SIGSTOP);
  waitpid(child.pid(), nullptr, WUNTRACED);
  for (const milliseconds limit : {milliseconds(0), milliseconds(60'000)}) {
    HangDetector detector(limit);
    const auto start = HangDetector::Clock::now();
    EXPECT_FALSE(detector.Look(start, {{5, {child.pid()}}}).has_value());
    const auto found =
        detector.Look(start + Milliseconds(schedule::kStop), {{5, {child.pid()}}});
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->kind, HangDetector::Finding::Kind::kStopped);
  }
}

TEST(HangDetectorTest, NeverNamesAnyoneWhereItIsOff) {
  const SleepingChild child;
  HangDetector detector(milliseconds(0));
  const auto start = HangDetector::Clock::now();
  EXPECT_FALSE(detector.Look(start, {{5, {child.pid()}}}).has_value());
  EXPECT_FALSE(
      detector.Look(start + std::chrono::hours(1), {{5, {child.pid()}}}).has_value());
}

}  // namespace
}  // namespace vrank::emulator
