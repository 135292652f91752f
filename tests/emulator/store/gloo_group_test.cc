// The oracle plays every absent rank by itself, by Gloo's algorithm, and the real
// ranks.

#include "emulator/store/gloo_group.h"

#include <deque>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using Kind = GlooMessage::Kind;

constexpr uint64_t kSlot = kGlooGatherAll << kGlooKindShift | 5 << 24;

std::vector<GlooMessage> Messages(std::string_view bytes) {
  std::vector<GlooMessage> messages;
  while (!bytes.empty()) {
    const auto message = ReadGlooMessage(&bytes);
    EXPECT_TRUE(message.ok() && message->has_value());
    if (!message.ok() || !message->has_value())
      break;
    messages.push_back(**message);
  }
  return messages;
}

// The halves of what each rank contributes: a real one its own, an absent one what the
// nearest real one before it does.
std::vector<std::string> Halves(uint32_t rank, uint32_t size,
                                const std::set<uint32_t>& absent) {
  while (absent.contains(rank))
    rank = (rank + size - 1) % size;
  return {"first of " + std::to_string(rank), "2nd of " + std::to_string(rank)};
}

// What rank sends to the one behind it, and receives from the one before it: its own
// halves, then those of the ranks before it, the nearest first.
std::vector<std::string> Sent(uint32_t rank, uint32_t size,
                              const std::set<uint32_t>& absent) {
  std::vector<std::string> sent;
  for (uint32_t i = 0; i + 1 < size; ++i)
    for (const std::string& half : Halves((rank + size - i) % size, size, absent))
      sent.push_back(half);
  return sent;
}

TEST(GlooGroupTest, GathersAsIfEachAbsentRankWereTheRealOneBeforeIt) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const uint32_t size = 2 + random() % 9;
    std::set<uint32_t> absent;
    for (uint32_t rank = 0; rank < size; ++rank)
      if (random() % 2 == 0)
        absent.insert(rank);
    if (absent.size() == size || absent.empty())
      continue;
    GlooGroup group(size, absent);
    // What the real ranks say to their absent neighbours, in any order that keeps each
    // one's.
    struct Say {
      GlooGroup::Pair pair;
      Kind kind;
      std::string data;
    };
    std::vector<std::deque<Say>> said;
    std::map<GlooGroup::Pair, std::vector<std::string>> expected;
    for (uint32_t rank = 0; rank < size; ++rank) {
      const uint32_t before = (rank + size - 1) % size, behind = (rank + 1) % size;
      if (absent.contains(rank))
        continue;
      std::deque<Say> sends, receives;
      if (absent.contains(behind))
        for (const std::string& half : Sent(rank, size, absent))
          sends.push_back({{behind, rank}, Kind::kData, half});
      if (absent.contains(before)) {
        expected[{before, rank}] = Sent(before, size, absent);
        for (const std::string& half : expected[{before, rank}])
          receives.push_back({{before, rank}, Kind::kWillReceive, half});
      }
      said.push_back(std::move(sends));
      said.push_back(std::move(receives));
    }
    std::map<GlooGroup::Pair, std::vector<std::string>> got;
    for (;;) {
      std::erase_if(said, [](const std::deque<Say>& each) { return each.empty(); });
      if (said.empty())
        break;
      std::deque<Say>& next = said[random() % said.size()];
      const Say say = next.front();
      next.pop_front();
      GlooGroup::Replies replies;
      group.Handle(say.pair,
                   {say.kind, kSlot, say.data.size(),
                    say.kind == Kind::kData ? std::string_view(say.data) : ""},
                   &replies);
      for (const auto& [pair, bytes] : replies)
        for (const GlooMessage& message : Messages(bytes))
          if (message.kind == Kind::kData)
            got[pair].emplace_back(message.data);
    }
    EXPECT_FALSE(group.HasPending());
    EXPECT_EQ(got, expected) << size << " ranks, round " << round;
    EXPECT_TRUE(group.zeros().empty());
  }
}

// Of the two absent ranks: each one's first half begins as a pickle does.
TEST(GlooGroupTest, CountsCopiesOfSerializedObjects) {
  const std::vector<std::string> halves{"\x80\x04\x95 first half", "and the 2nd one"};
  for (const bool is_object : {true, false}) {
    GlooGroup group(3, {1, 2});
    GlooGroup::Replies replies;
    for (size_t i = 0; i < 4; ++i) {
      const std::string& half = halves[is_object ? i % 2 : 1];
      group.Handle({1, 0}, {Kind::kData, kSlot, half.size(), half}, &replies);
      group.Handle({2, 0}, {Kind::kWillReceive, kSlot, half.size(), {}}, &replies);
    }
    EXPECT_FALSE(group.HasPending());
    EXPECT_EQ(group.copied_objects(), is_object ? 2u : 0u);
    EXPECT_GT(group.mirrored_bytes(), 0u);
  }
}

TEST(GlooGroupTest, TakesWhatIsSent) {
  GlooGroup group(4, {1, 2, 3});
  GlooGroup::Replies replies;
  group.Handle({2, 0}, {Kind::kWillSend, 9, 100, {}}, &replies);
  const auto messages = Messages(replies[{2, 0}]);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].kind, Kind::kWillReceive);
  EXPECT_EQ(messages[0].slot, 9u);
  EXPECT_EQ(messages[0].length, 100u);
  replies.clear();
  group.Handle({2, 0}, {Kind::kData, 9, 3, "abc"}, &replies);
  EXPECT_TRUE(replies.empty());
}

TEST(GlooGroupTest, SendsZerosWhereNothingTellsTheBytes) {
  GlooGroup group(4, {1, 2, 3});
  GlooGroup::Replies replies;
  group.Handle({1, 0}, {Kind::kWillReceive, 7, 3, {}}, &replies);
  const auto messages = Messages(replies[{1, 0}]);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].kind, Kind::kWillSend);
  EXPECT_EQ(messages[1].data, std::string(3, '\0'));
  EXPECT_EQ(group.zeros().at("send").bytes, 3u);
  EXPECT_FALSE(group.HasPending());
}

TEST(GlooGroupTest, AnswersAGatherThatNobodyEnters) {
  GlooGroup group(4, {1, 2, 3});
  GlooGroup::Replies replies;
  group.Handle({3, 0}, {Kind::kWillReceive, kSlot, 3, {}}, &replies);
  EXPECT_TRUE(replies.empty());
  EXPECT_TRUE(group.HasPending());
  group.AnswerPending(&replies);
  EXPECT_EQ(Messages(replies[{3, 0}]).size(), 2u);
  EXPECT_FALSE(group.HasPending());
  EXPECT_EQ(group.zeros().at("all_gather").bytes, 3u);
}

TEST(GlooGroupTest, PassesABroadcastOnFromARealRootToRealRanksBehindAbsentOnes) {
  constexpr uint64_t kTree = kGlooBroadcast << kGlooKindShift | 5 << 24;
  // Rank 0 sends to 1 and 2, rank 1 to 3.
  for (const bool root_is_first : {true, false}) {
    GlooGroup group(4, {1, 2});
    GlooGroup::Replies replies;
    const auto sends = [&] {
      group.Handle({2, 0}, {Kind::kData, kTree, 3, "abc"}, &replies);
      group.Handle({1, 0}, {Kind::kData, kTree, 3, "abc"}, &replies);
    };
    if (root_is_first)
      sends();
    group.Handle({1, 3}, {Kind::kWillReceive, kTree, 3, {}}, &replies);
    EXPECT_EQ(group.HasPending(), !root_is_first);
    if (!root_is_first)
      sends();
    EXPECT_FALSE(group.HasPending());
    const auto messages = Messages(replies[{1, 3}]);
    ASSERT_EQ(messages.size(), 2u);
    EXPECT_EQ(messages[1].data, "abc");
    EXPECT_TRUE(group.zeros().empty());
  }
}

TEST(GlooGroupTest, SendsZerosWhereTheRootOfABroadcastIsAbsent) {
  constexpr uint64_t kTree = kGlooBroadcast << kGlooKindShift | 5 << 24;
  GlooGroup group(4, {1, 2});
  GlooGroup::Replies replies;
  group.Handle({1, 3}, {Kind::kWillReceive, kTree, 3, {}}, &replies);
  ASSERT_TRUE(group.HasPending());
  group.AnswerPending(&replies);
  EXPECT_EQ(Messages(replies[{1, 3}]).back().data, std::string(3, '\0'));
  EXPECT_EQ(group.zeros().at("broadcast").bytes, 3u);
  EXPECT_EQ(group.zeros().at("broadcast").first.absent, 1u);
}

}  // namespace
}  // namespace vrank::emulator
