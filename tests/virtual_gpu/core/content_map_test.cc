// The two kinds of writes and how a read merges them, also against a byte-wise model.

#include "virtual_gpu/core/content_map.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

using Kind = Origin::Kind;

std::vector<ContentRun> Read(const ContentMap& map, uint64_t begin, uint64_t end,
                             BlindWrite blind = {}) {
  std::vector<ContentRun> runs;
  map.Read(begin, end, blind, &runs);
  return runs;
}

TEST(ContentMapTest, StartsUnwritten) {
  ContentMap map;
  auto runs = Read(map, 10, 20);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].begin, 10u);
  EXPECT_EQ(runs[0].end, 20u);
  EXPECT_EQ(runs[0].origin.kind, Kind::kUnwritten);
}

TEST(ContentMapTest, SplitsAResultAndKeepsItsOffsets) {
  ContentMap map;
  protocol::PayloadKey key{
      .communicator = 1, .sequence = 7, .peer = 0, .is_transfer = 0};
  map.Write(0, 100, Origin::Result(key, 1000), 1);
  map.Write(40, 60, Origin::Bytes(), 2);
  auto runs = Read(map, 0, 100);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].origin.offset, 1000u);
  EXPECT_EQ(runs[1].origin.kind, Kind::kBytes);
  EXPECT_EQ(runs[2].begin, 60u);
  EXPECT_EQ(runs[2].origin.offset, 1060u);
}

TEST(ContentMapTest, LaterKernelHidesEarlierOnesBehindItsStart) {
  ContentMap map;
  map.WriteFrom(50, "late", 1);
  map.WriteFrom(20, "early", 2);
  map.WriteFrom(80, "last", 3);
  auto runs = Read(map, 0, 100);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].origin.kind, Kind::kUnwritten);
  EXPECT_STREQ(runs[1].origin.writer, "early");
  EXPECT_EQ(runs[1].end, 80u);
  EXPECT_STREQ(runs[2].origin.writer, "last");
}

TEST(ContentMapTest, BlindWriteHitsOnlyWhatWasThereBefore) {
  ContentMap map(5);
  map.Write(0, 10, Origin::Bytes(), 6);
  map.Write(10, 20, Origin::Bytes(), 9);
  auto runs = Read(map, 0, 30, {8, "blind"});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[0].origin.kind, Kind::kComputed);
  EXPECT_EQ(runs[1].origin.kind, Kind::kBytes);
  EXPECT_EQ(runs[2].origin.kind, Kind::kComputed);
  ContentMap younger(8);
  EXPECT_EQ(Read(younger, 0, 4, {8, "blind"})[0].origin.kind, Kind::kUnwritten);
}

TEST(ContentMapTest, ANumberByItselfIsHiddenByPointersToItAlone) {
  ContentMap map;
  Origin own = Origin::Bytes();
  own.own = true;
  map.Write(40, 44, own, 1);
  map.WriteFrom(0, "before", 2);
  auto runs = Read(map, 36, 48);
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_STREQ(runs[0].origin.writer, "before");
  EXPECT_EQ(runs[1].origin.kind, Kind::kBytes);
  EXPECT_STREQ(runs[2].origin.writer, "before");
  map.WriteFrom(40, "it", 3);
  EXPECT_STREQ(Read(map, 40, 44)[0].origin.writer, "it");
  map.WriteFrom(0, "before", 4);  // by which nobody knows any more where `it` began
  EXPECT_STREQ(Read(map, 40, 44)[0].origin.writer, "before");
  map.Write(40, 44, own, 5);
  EXPECT_EQ(Read(map, 40, 44, {6, "blind"})[0].origin.kind, Kind::kComputed);
}

TEST(ContentMapTest, ThePieceIsWhatAWriteOfKnownExtentLeft) {
  ContentMap map;
  EXPECT_EQ(map.LatestPiece(0, 4), nullptr);
  map.Write(40, 44, Origin::Fill(7), 1);
  map.WriteFrom(0, "before", 2);
  const Origin* const piece = map.LatestPiece(40, 44);
  ASSERT_NE(piece, nullptr);
  EXPECT_EQ(piece->pattern, 7u);
  EXPECT_EQ(map.LatestPiece(40, 45), nullptr);
  EXPECT_EQ(map.LatestPiece(41, 44), nullptr);
}

// Every byte's latest writer, the slow way.
TEST(ContentMapTest, AgreesWithAByteWiseModel) {
  constexpr uint64_t kBytes = 64;
  const char* writers[] = {"a", "b", "c"};
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    ContentMap map;
    BlindWrite blind;
    std::string model(kBytes, '.');
    for (uint64_t sequence = 1; sequence <= 60; ++sequence) {
      const uint64_t begin = random() % kBytes;
      const uint64_t end = begin + 1 + random() % (kBytes - begin);
      const unsigned which = random() % 3;
      switch (random() % 15) {
        case 0:
          blind = {sequence, writers[which]};
          model.assign(kBytes, writers[which][0]);
          break;
        case 1:
        case 2:
        case 3:
        case 4:
          map.WriteFrom(begin, writers[which], sequence);
          std::fill(model.begin() + static_cast<long>(begin), model.end(),
                    writers[which][0]);
          break;
        case 5:
        case 6:
          map.Write(begin, end, Origin::Computed(writers[which]), sequence);
          std::fill_n(model.begin() + static_cast<long>(begin), end - begin,
                      writers[which][0]);
          break;
        case 12:
        case 13:
        case 14:
          map.WriteWithin(begin, end, writers[which], sequence);
          std::fill_n(model.begin() + static_cast<long>(begin), end - begin,
                      writers[which][0]);
          break;
        default:
          map.Write(begin, end, Origin::Bytes(), sequence);
          std::fill_n(model.begin() + static_cast<long>(begin), end - begin, 'B');
      }
      const uint64_t from = random() % kBytes;
      std::string seen;
      for (const ContentRun& run : Read(map, from, kBytes, blind)) {
        ASSERT_EQ(run.begin, from + seen.size());
        const Kind kind = run.origin.kind;
        seen.append(run.end - run.begin, kind == Kind::kUnwritten ? '.'
                                         : kind == Kind::kBytes   ? 'B'
                                                                : run.origin.writer[0]);
      }
      ASSERT_EQ(seen, model.substr(from)) << "seed " << seed << " step " << sequence;
    }
  }
}

}  // namespace
}  // namespace vrank::gpu
