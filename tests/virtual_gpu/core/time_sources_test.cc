#include "virtual_gpu/core/time_sources.h"

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

using protocol::TimeSource;

TEST(TimeSourcesTest, NamesWorkByWhoVouchesForIt) {
  TimeSources sources;
  sources.AddHost(TimeSource::kModelled, 700);
  sources.AddHost(TimeSource::kAssumed, 20);
  sources.AddHost(TimeSource::kModelled, 7);
  ActivityWork work;
  work.name = "_Z5scalePfif";
  sources.AddWork(work, TimeSource::kModelled);
  sources.AddWork(work, TimeSource::kMeasured);
  work.name = "odd\"name\n";
  sources.AddWork(work, TimeSource::kAssumed);
  work.kind = ActivityWorkKind::kCopy;
  sources.AddWork(work, TimeSource::kModelled);
  sources.AddWork(work, TimeSource::kModelled);
  work.kind = ActivityWorkKind::kMemset;
  sources.AddWork(work, TimeSource::kRecorded);
  work.kind = ActivityWorkKind::kHostFunc;
  sources.AddWork(work, TimeSource::kAssumed);
  EXPECT_EQ(
      sources.Json(),
      R"json({"times": "virtual", "host_ns": {"modelled": 707, "assumed": 20, )json"
      R"json("recorded": 0, "measured": 0}, "work": {)json"
      R"json("modelled": ["Memcpy", "scale(float*, int, float)"], )json"
      R"json("assumed": ["odd\"name\u000a"], "recorded": ["Memset"], )json"
      R"json("measured": ["scale(float*, int, float)"]}})json");
}

// torch.profiler leaves longer symbols as they are.
TEST(TimeSourcesTest, LeavesLongSymbolsMangled) {
  for (const size_t length : {1024, 1025}) {
    const std::string digits = std::to_string(length - 7);
    const std::string symbol = "_Z" + digits + std::string(length - 7, 'k') + "v";
    ASSERT_EQ(symbol.size(), length);
    TimeSources sources;
    ActivityWork work;
    work.name = symbol.c_str();
    sources.AddWork(work, TimeSource::kModelled);
    EXPECT_EQ(sources.Json().find(symbol) == std::string::npos, length == 1024);
  }
}

}  // namespace
}  // namespace vrank::gpu
