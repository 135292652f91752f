// Rules, and a run of two ranks whose values stand in for one of them in the next run.

#include "emulator/payload/policy.h"

#include <fstream>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/payload/hub_oracle.h"

namespace vrank::emulator {
namespace {

using Value = std::vector<std::optional<std::byte>>;

std::vector<std::byte> BytesOfValues(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values)
    bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}
Value Known(std::initializer_list<int> values) {
  Value result;
  for (int value : values)
    result.emplace_back(static_cast<std::byte>(value));
  return result;
}

CollectiveCall Of(CollectiveKind operation, uint64_t count) {
  return {operation, ElementType::kUint8, Reduction::kSum, 0, count};
}

HubOptions With(PayloadRules* rules, const std::string& text) {
  rules->Add(*ParsePayloadRule(text));
  HubOptions options;
  options.rules = rules;
  return options;
}

TEST(PayloadPolicyTest, ReadsRules) {
  const auto rule = ParsePayloadRule("tp@0#1:all_gather=zero");
  ASSERT_TRUE(rule.ok());
  EXPECT_EQ(rule->communicator, "tp@0#1");
  EXPECT_EQ(rule->operation, "all_gather");
  EXPECT_EQ(rule->policy, PayloadPolicy::kZero);
  for (const char* wrong : {"", "world", "world:all_gather", ":*=zero", "*:*=nonsense",
                            "*:allgather=zero", "=zero"})
    EXPECT_FALSE(ParsePayloadRule(wrong).ok()) << wrong;
}

TEST(PayloadPolicyTest, TakesTheLastRuleThatFits) {
  PayloadRules rules;
  rules.Add(*ParsePayloadRule("*:*=exact"));
  rules.Add(*ParsePayloadRule("world*:broadcast=zero"));
  const auto find = [&](const char* communicator, const char* operation) {
    return rules.Find(communicator, operation, PayloadPolicy::kMirror);
  };
  EXPECT_EQ(find("world/0.1", "broadcast"), PayloadPolicy::kZero);
  EXPECT_EQ(find("world", "all_reduce"), PayloadPolicy::kExact);
  EXPECT_EQ(find("tp@0", "broadcast"), PayloadPolicy::kExact);
  EXPECT_EQ(PayloadRules().Find("world", "reduce", PayloadPolicy::kRecorded),
            PayloadPolicy::kRecorded);
}

TEST(PayloadPolicyTest, NamesRulesThatDecideNothing) {
  PayloadRules rules;
  for (const char* text : {"*:*=exact", "word:*=zero", "world/*:*=zero"})
    rules.Add(*ParsePayloadRule(text));
  EXPECT_EQ(rules.DescribeUnused(), "");
  rules.Find("world", "all_reduce", PayloadPolicy::kMirror);
  rules.Find("world/0.0", "all_reduce", PayloadPolicy::kMirror);
  EXPECT_EQ(rules.DescribeUnused(),
            "'word:*' decided nothing; values were read of 'world', 'world/0.0'");
  rules.Find("word", "all_reduce", PayloadPolicy::kMirror);
  EXPECT_EQ(rules.DescribeUnused(), "");
}

TEST(PayloadPolicyTest, ZeroAddsNothingAndFillsPlacesWithZeros) {
  PayloadRules rules;
  HubFixture fixture(2, {0}, With(&rules, "*:*=zero"));
  fixture.Deposit(0, KeyOf(0), 0, BytesOfValues({5, 7}));
  fixture.Call(0, Of(CollectiveKind::kAllReduce, 2));
  EXPECT_EQ(fixture.Result(0, KeyOf(0), 0, 2), Known({5, 7}));
  fixture.Deposit(0, KeyOf(1), 0, BytesOfValues({5, 7}));
  fixture.Call(0, Of(CollectiveKind::kAllGather, 2));
  EXPECT_EQ(fixture.Result(0, KeyOf(1), 0, 4), Known({5, 7, 0, 0}));
  uint32_t number = 2;
  for (const Reduction reduction : {Reduction::kMin, Reduction::kProd}) {
    fixture.Deposit(0, KeyOf(number), 0, BytesOfValues({5, 7}));
    CollectiveCall call = Of(CollectiveKind::kAllReduce, 2);
    call.reduction = reduction;
    fixture.Call(0, call);
    EXPECT_EQ(fixture.Result(0, KeyOf(number++), 0, 2), Known({0, 0}));
  }
}

TEST(PayloadPolicyTest, ExactMakesNothingUp) {
  PayloadRules rules;
  HubFixture fixture(2, {0}, With(&rules, "*:all_*=exact"));
  fixture.Deposit(0, KeyOf(0), 0, BytesOfValues({5, 7}));
  fixture.Call(0, Of(CollectiveKind::kAllReduce, 2));
  EXPECT_EQ(fixture.Result(0, KeyOf(0), 0, 2), Value(2));
  fixture.Deposit(0, KeyOf(1), 0, BytesOfValues({5, 7}));
  fixture.Call(0, Of(CollectiveKind::kAllGather, 2));
  Value own_part = Known({5, 7});
  own_part.resize(4);
  EXPECT_EQ(fixture.Result(0, KeyOf(1), 0, 4), own_part);
}

TEST(PayloadPolicyTest, ReplaysWhatTheMemberReadInARecordedRun) {
  RecordedPayloads recording;
  HubOptions full;
  full.recording = &recording;
  HubFixture both(2, {0, 1}, full);
  for (uint32_t sequence = 0; sequence < 2; ++sequence) {
    for (int member = 0; member < 2; ++member)
      both.Deposit(static_cast<uint32_t>(member), KeyOf(sequence), 0,
                   BytesOfValues({10 * member + static_cast<int>(sequence)}));
    for (uint32_t member = 0; member < 2; ++member)
      both.Call(member, Of(CollectiveKind::kAllGather, 1));
    both.Result(0, KeyOf(sequence), 0, 2);
  }
  const std::string path = ::testing::TempDir() + "policy_test.payloads";
  ASSERT_TRUE(recording.Save(path).ok());
  const auto loaded = RecordedPayloads::Load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->size(), 2u);

  HubOptions replayed;
  replayed.recorded = &*loaded;
  HubFixture one(2, {0}, replayed);
  // An added collective of another size shifts nothing.
  one.Deposit(0, KeyOf(0), 0, BytesOfValues({1, 2}));
  one.Call(0, Of(CollectiveKind::kAllGather, 2));
  EXPECT_EQ(one.Result(0, KeyOf(0), 0, 4), Known({1, 2, 1, 2}));
  for (uint32_t sequence = 0; sequence < 2; ++sequence) {
    one.Call(0, Of(CollectiveKind::kAllGather, 1));  // its own bytes are computed now
    EXPECT_EQ(one.Result(0, KeyOf(sequence + 1), 0, 2),
              Known({static_cast<int>(sequence), 10 + static_cast<int>(sequence)}));
  }
  EXPECT_FALSE(RecordedPayloads::Load(path + ".missing").ok());
}

// Programs read parts of a value, in any order and more than once.
TEST(RecordedPayloadsTest, KeepsWhatAnyReadHasGot) {
  RecordedPayloads recorded;
  const auto add = [&](uint64_t offset, const std::string& text) {
    recorded.Add("value", offset, std::as_bytes(std::span(text.data(), text.size())));
  };
  const auto find = [&](uint64_t offset, uint64_t limit) {
    const auto found = recorded.Find("value", offset, limit);
    return std::string(reinterpret_cast<const char*>(found.data()), found.size());
  };
  add(0, "0123456789");
  add(0, "01");
  EXPECT_EQ(find(0, 10), "0123456789");
  add(4, "45");
  EXPECT_EQ(find(0, 10), "0123456789");
  EXPECT_EQ(find(6, 10), "6789");
  add(20, "kl");
  EXPECT_EQ(find(10, 4), "");
  add(8, "89abcdefghijkL");
  EXPECT_EQ(find(7, 30), "789abcdefghijkL");
  EXPECT_EQ(find(20, 30), "kL") << "later ones win";
  EXPECT_EQ(find(22, 1), "");
}

TEST(RecordedPayloadsTest, SaysWhichVersionAFileHas) {
  const std::string path = ::testing::TempDir() + "version.payloads";
  const auto error_with = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return RecordedPayloads::Load(path).status().ToString();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error_with("\x08\x02"),
              HasSubstr("format version 2, this build reads 1-1"));
  EXPECT_THAT(error_with(""), HasSubstr("format version 0, which no vrank writes"));
  EXPECT_THAT(error_with("\xff"), HasSubstr("no such file, or a part of one"));
}

}  // namespace
}  // namespace vrank::emulator
