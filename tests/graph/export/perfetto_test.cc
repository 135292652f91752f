// Reads back what was written, with a decoder that shares nothing with the writer.

#include "graph/export/perfetto.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/analysis/timeline.h"
#include "tests/graph/replay/folding_job.h"

namespace vrank::graph {
namespace {

struct Field {
  uint64_t number = 0;
  std::string bytes;
};
using Message = std::multimap<uint32_t, Field>;

uint64_t Varint(const std::string& bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80)
      return value;
  }
}

Message Decode(const std::string& bytes) {
  Message message;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t key = Varint(bytes, at);
    Field field;
    if ((key & 7) == 0) {
      field.number = Varint(bytes, at);
    } else if ((key & 7) == 1) {
      for (size_t i = 0; i < 8; ++i)
        field.number |= uint64_t{static_cast<unsigned char>(bytes.at(at + i))} << 8 * i;
      at += 8;
    } else {
      const uint64_t size = Varint(bytes, at);
      field.bytes = bytes.substr(at, size);
      EXPECT_EQ(field.bytes.size(), size);
      at += size;
    }
    message.emplace(static_cast<uint32_t>(key >> 3), std::move(field));
  }
  return message;
}

uint64_t Number(const Message& message, uint32_t field) {
  const auto at = message.find(field);
  return at == message.end() ? 0 : at->second.number;
}

std::string Written(uint64_t seed, Timeline& timeline) {
  FoldingJobOptions options;
  options.classes = 3;
  const FoldingJob made = MakeFoldingJob(seed, options);
  const NodeNetwork network(4);
  CutMembership membership(&made.cuts);
  const auto job = ResolveCommunicators(made.job, &membership);
  EXPECT_TRUE(job.ok());
  const auto replay = ReplayFolded(*job, network, timeline.Observers());
  EXPECT_TRUE(replay.ok());
  timeline.Complete(*job, **replay);
  std::ostringstream out;
  EXPECT_TRUE(WritePerfetto(timeline, out).ok());
  return out.str();
}

TEST(PerfettoTest, HoldsWhatHappened) {
  size_t slices = 0, ended = 0, arrows = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Timeline timeline;
    const std::string trace = Written(seed, timeline);
    Timeline again;
    ASSERT_EQ(trace, Written(seed, again));
    std::set<uint64_t> tracks;
    std::map<uint64_t, int> depth;
    std::map<uint64_t, int64_t> last;
    std::map<uint64_t, int64_t> flow_begin, flow_end;
    size_t processes = 0;
    for (const auto& [field, packet_bytes] : Decode(trace)) {
      ASSERT_EQ(field, 1u);
      const Message packet = Decode(packet_bytes.bytes);
      if (const auto at = packet.find(60); at != packet.end()) {
        const Message track = Decode(at->second.bytes);
        ASSERT_TRUE(tracks.insert(Number(track, 1)).second);
        processes += track.count(3);
        ASSERT_TRUE(track.count(5) == 0 || tracks.count(Number(track, 5)) == 1);
        continue;
      }
      const Message event = Decode(packet.find(11)->second.bytes);
      const uint64_t track = Number(event, 11);
      const auto ns = static_cast<int64_t>(Number(packet, 8));
      ASSERT_EQ(tracks.count(track), 1u);
      ASSERT_GE(ns, last[track]);
      last[track] = ns;
      if (Number(event, 9) == 1) {
        ++depth[track];
        ++slices;
      } else if (Number(event, 9) == 2) {
        --depth[track];
        ++ended;
        ASSERT_GE(depth[track], 0);
      }
      for (auto [at, end] = event.equal_range(47); at != end; ++at)
        ASSERT_TRUE(flow_begin.emplace(at->second.number, ns).second);
      for (auto [at, end] = event.equal_range(48); at != end; ++at)
        ASSERT_TRUE(flow_end.emplace(at->second.number, ns).second);
    }
    EXPECT_EQ(processes, timeline.ranks().size());
    ASSERT_EQ(flow_begin.size(), flow_end.size());
    for (const auto& [flow, begin_ns] : flow_begin)
      ASSERT_LT(begin_ns, flow_end.at(flow));
    arrows += flow_begin.size();
  }
  EXPECT_GT(slices, 1000u);
  EXPECT_LE(ended, slices);
  EXPECT_GT(arrows, 100u);
}

TEST(PerfettoTest, SaysWhereTheTraceCouldNotBeWritten) {
  std::ofstream nowhere("/nonexistent/trace");
  EXPECT_EQ(WritePerfetto(Timeline(), nowhere).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace vrank::graph
