// What nvidia-smi prints of a node of two GPUs.

#include "virtual_gpu/smi/report.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::smi {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

Machine TwoGpus() {
  Machine machine;
  machine.driver_version = "580.65.06";
  machine.cuda_version = 13000;
  for (unsigned i = 0; i < 2; ++i)
    machine.gpus.push_back({i, "NVIDIA H100 80GB HBM3", "GPU-0" + std::to_string(i),
                            "00000000:0" + std::to_string(i + 4) + ":00.0",
                            81559 * kMiB, 520 * kMiB, 81039 * kMiB, 9, 0, 1980, 2619});
  machine.processes.push_back({1, 4321, "/usr/bin/python3", 520 * kMiB});
  return machine;
}

std::string Query(std::string_view fields, CsvFormat format = {}) {
  std::string text;
  EXPECT_TRUE(QueryGpus(TwoGpus(), fields, format, "now", &text));
  return text;
}

TEST(NvidiaSmiTest, ListsGpus) {
  EXPECT_EQ(List(TwoGpus()),
            "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00)\n"
            "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-01)\n");
}

TEST(NvidiaSmiTest, LinesOfTheTableAreEquallyWide) {
  const std::string table = Table(TwoGpus(), "Thu Nov 26 19:31:00 2026");
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);
  EXPECT_THAT(line, HasSubstr("Thu Nov 26 19:31:00 2026"));
  while (std::getline(lines, line))
    EXPECT_EQ(line.size(), 91u) << line;
  EXPECT_THAT(table, HasSubstr("CUDA Version: 13.0 "));
  EXPECT_THAT(table, HasSubstr("|     520MiB /  81559MiB |"));
  EXPECT_THAT(table, HasSubstr("4321      C   /usr/bin/python3"));
}

TEST(NvidiaSmiTest, SaysThatNoProcessRuns) {
  Machine machine = TwoGpus();
  machine.processes.clear();
  EXPECT_THAT(Table(machine, ""), HasSubstr("|  No running processes found "));
}

TEST(NvidiaSmiTest, QueriesHaveUnitsAndAHeader) {
  EXPECT_EQ(Query("index, name,memory.total"),
            "index, name, memory.total [MiB]\n"
            "0, NVIDIA H100 80GB HBM3, 81559 MiB\n"
            "1, NVIDIA H100 80GB HBM3, 81559 MiB\n");
  EXPECT_EQ(Query("memory.used,compute_cap", {.header = false, .units = false}),
            "520, 9.0\n520, 9.0\n");
}

TEST(NvidiaSmiTest, WhatIsNotModelledIsNotAvailable) {
  EXPECT_EQ(Query("utilization.gpu,count"),
            "utilization.gpu [%], count\n[N/A], 2\n[N/A], 2\n");
}

TEST(NvidiaSmiTest, UnknownFieldsAreErrors) {
  std::string text;
  EXPECT_FALSE(QueryGpus(TwoGpus(), "index,colour", {}, "", &text));
  EXPECT_EQ(text, "Field \"colour\" is not a valid field to query.\n");
  EXPECT_FALSE(QueryProcesses(TwoGpus(), "", {}, &text));
}

TEST(NvidiaSmiTest, QueriesProcesses) {
  std::string text;
  ASSERT_TRUE(QueryProcesses(TwoGpus(), "gpu_uuid,pid,process_name,used_memory",
                             {.header = false}, &text));
  EXPECT_EQ(text, "GPU-01, 4321, /usr/bin/python3, 520 MiB\n");
}

}  // namespace
}  // namespace vrank::smi
