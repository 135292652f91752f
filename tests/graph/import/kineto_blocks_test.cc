// Reading in blocks gives what reading as a stream gives, however the blocks fall.

#include "graph/import/kineto_blocks.h"

#include <algorithm>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/import/kineto_reader.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/recording_text.h"
#include "tests/graph/import/simulated_run.h"

namespace vrank::graph {
namespace {

class KinetoBlocksTest : public ::testing::Test {
 protected:
  // Of a file that is shorter than a block.
  std::string AsStream(const std::string& path) const {
    return RecordingText(ReadKineto(path));
  }
  // `text` gives the same recording, or the same error, at every size of blocks.
  void ExpectEqualAtEverySize(const std::string& text, size_t step = 1) const {
    const std::string path = files_.Write("t.json", text);
    const std::string expected = AsStream(path);
    for (size_t size = 16; size <= text.size() + step; size += step)
      ASSERT_EQ(RecordingText(ReadKineto(path, size)), expected) << size;
  }

  ProfileFiles files_;
};

std::string Event(int id, const std::string& args = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "cuda_runtime", "name": "call{0}", "pid": 1, "tid": {1},
      "ts": {2}.125, "dur": 3, "args": {{"correlation": {0}{3}}}}})",
      id, id % 3, 100 + 10 * id, args);
}
std::string Events(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (i == 0 ? "" : ",\n") + Event(i);
  return text;
}

TEST_F(KinetoBlocksTest, ReadsWholeProfiles) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const SimulatedRun run = RandomRun(&random, 2, 60);
    const std::string text = ProfileOf(run, Simulate(run), round % 2);
    const std::string path = round % 3 == 0 ? files_.WriteGz("t.json.gz", text)
                                            : files_.Write("t.json", text);
    const std::string expected = AsStream(path);
    // Behind the header, which one block has to hold.
    const size_t shortest = text.find("traceEvents") + 1'000;
    for (int size = 0; size < 10; ++size) {
      const size_t bytes = shortest + random() % (text.size() - shortest);
      const auto trace = ReadKinetoInBlocks(path, bytes);
      ASSERT_TRUE(trace.has_value()) << round << " " << bytes;
      EXPECT_EQ(trace->bytes, text.size());
      EXPECT_EQ(RecordingText(ReadKineto(path, bytes)), expected);
    }
  }
}

TEST_F(KinetoBlocksTest, ReadsListsAndByteOrderMarks) {
  const std::string list = "[" + Events(6) + "]\n";
  ExpectEqualAtEverySize(list);
  ExpectEqualAtEverySize("\xEF\xBB\xBF" + list);
  EXPECT_TRUE(ReadKinetoInBlocks(files_.Write("t.json", list), 400).has_value());
}

TEST_F(KinetoBlocksTest, ReadsTheHeaderOnBothSides) {
  for (const char* const behind :
       {R"("baseTimeNanoseconds": 5000)", R"("distributedInfo": {"rank": 3})",
        R"("deviceProperties": [{"name": "C"}])", R"("traceName": "}, {")",
        R"("traceEvents": [{"ph": "M"}, {"ph": "M"}])"})
    ExpectEqualAtEverySize(fmt::format(
        R"({{"deviceProperties": [{{"name": "A"}}, {{"name": "B"}}], "distributedInfo":
        {{"rank": 1, "world_size": 4}}, "baseTimeNanoseconds": 9000, "traceEvents":
        [{}],
        {}}})",
        Events(5), behind));
}

TEST_F(KinetoBlocksTest, IsNotMisledByTextsAndNestedLists) {
  for (const char* const args :
       {R"(, "Call stack": "f(); }, {g(); \"}, {\"")",
        R"(, "x": [{"a": 1}, {"b": 2}, {"c": {}}])", R"(, "y": "\u0000}, {")"}) {
    std::string events;
    for (int i = 0; i < 5; ++i)
      events += Event(i, args) + (i == 4 ? "" : " , ");
    ExpectEqualAtEverySize(fmt::format(R"({{"traceEvents": [{}], "z": 1}})", events));
  }
}

TEST_F(KinetoBlocksTest, LeavesErrorsToTheStream) {
  const std::string whole = fmt::format(R"({{"traceEvents": [{}]}})", Events(6));
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] = "{}[]\",:x0 "[random() % 10];
    ExpectEqualAtEverySize(damaged, 29);
    ExpectEqualAtEverySize(whole.substr(0, random() % whole.size()), 29);
  }
  ExpectEqualAtEverySize(whole + "x");
  ExpectEqualAtEverySize(whole + std::string(3, '\0'));
}

TEST_F(KinetoBlocksTest, CountsCategoriesAsTheStreamDoes) {
  std::string events;
  for (int i = 0; i < 90; ++i)
    events += fmt::format(R"({{"ph": "X", "cat": "c{}"}}, )", i % 70);
  const std::string path = files_.Write(
      "t.json", fmt::format(R"({{"traceEvents": [{}{}]}})", events, Event(1)));
  EXPECT_EQ(RecordingText(ReadKineto(path, 300)), AsStream(path));
}

}  // namespace
}  // namespace vrank::graph
