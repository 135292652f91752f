#include "emulator/world/host_cpu.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "emulator/watch/process_sample.h"

namespace vrank::emulator {
namespace {

// Until the process has used so much CPU time.
void Compute(int64_t ns) {
  timespec now{};
  do
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  while (int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec < ns);
}

TEST(HostCpuTest, InterpolatesBetweenSamples) {
  HostCpu cpu;
  EXPECT_EQ(cpu.Between(0, 0), std::nullopt);
  cpu.Add(10, 1000);
  cpu.Add(30, 3000);
  cpu.Add(40, 3500);
  EXPECT_EQ(cpu.Between(10, 40), 2500);
  EXPECT_EQ(cpu.Between(15, 35), 1750);
  EXPECT_EQ(cpu.Between(9, 30), std::nullopt);
  EXPECT_EQ(cpu.Between(10, 41), std::nullopt);
}

TEST(HostCpuTest, SpreadsNothingOverSeveralIterations) {
  HostCpu cpu;
  cpu.Add(0, 0);
  cpu.Add(1000, 5'000'000);
  EXPECT_EQ(cpu.Between(400, 600), std::nullopt);   // no sample inside
  EXPECT_EQ(cpu.Between(900, 1000), std::nullopt);  // none shortly before
  cpu.Add(1100, 5'100'000);
  cpu.Add(1200, 5'200'000);
  EXPECT_EQ(cpu.Between(1050, 1150), 100'000);
}

// A kernel and a wait: the wait of the iteration before is not inside any.
TEST(HostCpuTest, SeesIterationsOfFewOps) {
  HostCpu cpu;
  for (uint64_t step = 0; step < 4; ++step)
    cpu.Add(10 + 4 * step, static_cast<int64_t>(6'000'000 * step));
  // Ops 13 to 15: a range begins behind op 12, op 14 is the wait.
  EXPECT_EQ(cpu.Between(13, 15), 6'000'000);
  EXPECT_EQ(cpu.Between(17, 19), 6'000'000);
  EXPECT_EQ(cpu.Between(9, 11), std::nullopt);   // none before
  EXPECT_EQ(cpu.Between(11, 13), std::nullopt);  // none inside
  EXPECT_EQ(cpu.Between(60, 62), std::nullopt);  // none near
}

TEST(HostCpuTest, KeepsALongRunInBoundedMemory) {
  HostCpu cpu;
  constexpr uint64_t kOps = 1'000'000;
  for (uint64_t op = 0; op < kOps; ++op)
    cpu.Add(op, static_cast<int64_t>(7 * op));
  const uint64_t known = kOps - kOps / HostCpu::kMostSamples * 4;
  EXPECT_EQ(cpu.Between(0, known), 7 * known);
}

TEST(HostCpuTest, ReadsTheClockOfAProcess) {
  HostCpu cpu;
  cpu.Sample(1, getpid(), 0);
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  Compute(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec + 20'000'000);
  cpu.Sample(2, getpid(), 0);
  EXPECT_GE(cpu.Between(1, 2), 20'000'000);
}

TEST(HostCpuTest, WorkOfAGpuIsNotTheProgramsOwn) {
  HostCpu cpu;
  cpu.Sample(1, getpid(), 0);
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  Compute(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec + 20'000'000);
  cpu.Sample(2, getpid(), 1'000'000'000);
  EXPECT_LT(cpu.Between(1, 2), 0);
}

TEST(HostCpuTest, CountsChildrenApart) {
  const int64_t before = CpuOfChildren(getpid());
  const pid_t child = fork();
  if (child == 0) {
    Compute(60'000'000);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  // The kernel counts in ticks of 10 ms.
  EXPECT_GE(CpuOfChildren(getpid()) - before, 40'000'000);
}

}  // namespace
}  // namespace vrank::emulator
