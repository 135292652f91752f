// The raw file: from many threads, on a full disk, up to a kill.

#include "tracer/record/trace_writer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/trace/trace_file.h"

namespace vrank::tracer {
namespace {

using ::testing::HasSubstr;

class TraceWriterTest : public ::testing::Test {
 protected:
  TraceWriterTest() {
    // Tests run at the same time, each in a process of its own.
    path = ::testing::TempDir() + "writer_" + std::to_string(getpid()) + ".vtrace";
    std::filesystem::remove(path);
  }
  ~TraceWriterTest() override { std::filesystem::remove(path); }

  static void AppendCall(TraceWriter* writer, uint32_t number, std::string_view name) {
    trace::Call call{};
    call.record.kind = trace::Kind::kCall;
    call.function = writer->Name(name);
    call.correlation = number;
    call.start_ns = number;
    writer->Append(trace::Source::kProgram, call);
  }

  std::string path;
};

TEST_F(TraceWriterTest, KeepsWhatManyThreadsSay) {
  constexpr uint32_t kThreads = 8, kEach = 20'000;
  {
    TraceWriter writer;
    ASSERT_EQ(writer.Open(path.c_str()), TraceWriter::OpenResult::kOpen);
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (uint32_t i = 0; i < kEach; ++i) {
          AppendCall(&writer, t * kEach + i, "name " + std::to_string(i % 10));
          if (i % 5000 == 0)
            writer.Flush();
        }
      });
    for (std::thread& thread : threads)
      thread.join();
    writer.Finish(0);
    EXPECT_EQ(writer.dropped(), 0u);
  }
  const auto read = graph::ReadTrace(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->calls.size(), kThreads * kEach);
  EXPECT_EQ(read->names.size(), 11u);
  for (uint32_t i = 0; i < read->calls.size(); ++i) {
    ASSERT_EQ(read->calls[i].correlation, i);
    ASSERT_EQ(read->names[read->calls[i].function],
              "name " + std::to_string(i % kEach % 10));
  }
}

TEST_F(TraceWriterTest, IsReadableAfterAKill) {
  const pid_t child = fork();
  if (child == 0) {
    TraceWriter writer;
    writer.Open(path.c_str());
    for (uint32_t i = 0; i < 100'000; ++i)
      AppendCall(&writer, i, "f");
    // Until some of it is on the disk.
    while (std::filesystem::file_size(path) < 8 * kChunkBytes)
      usleep(1000);
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const auto read = graph::ReadTrace(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->complete);
  EXPECT_GT(read->calls.size(), 10'000u);
  EXPECT_LT(read->calls.size(), 100'000u);
}

TEST_F(TraceWriterTest, SaysOnceThatTheDiskIsFullAndGoesOn) {
  TraceWriter writer;
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(writer.Open("/dev/full"), TraceWriter::OpenResult::kOpen);
  for (uint32_t i = 0; i < 50'000; ++i)
    AppendCall(&writer, i, "f");
  writer.Finish(0);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("No space left on device"));
  EXPECT_EQ(said.find("cannot write"), said.rfind("cannot write"));
  EXPECT_GT(writer.dropped(), 49'000u);
}

TEST_F(TraceWriterTest, LeavesFilesAloneThatAreNotItsOwn) {
  TraceWriter first, second, third;
  ASSERT_EQ(first.Open(path.c_str()), TraceWriter::OpenResult::kOpen);
  EXPECT_EQ(second.Open(path.c_str()), TraceWriter::OpenResult::kTaken);
  first.Finish(0);
  EXPECT_EQ(second.Open(path.c_str()), TraceWriter::OpenResult::kExists);
  EXPECT_EQ(third.Open("/nowhere/x"), TraceWriter::OpenResult::kFailed);
  EXPECT_TRUE(graph::ReadTrace(path)->complete);
}

}  // namespace
}  // namespace vrank::tracer
