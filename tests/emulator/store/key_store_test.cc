#include "emulator/store/key_store.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using Operation = StoreRequest::Operation;

const std::string kReady("\0", 1), kNotReady("\1", 1), kAllThere("\0", 1),
    kCancelled("\1", 1);

class KeyStoreTest : public testing::Test {
 protected:
  KeyStore::Replies Ask(KeyStore::Client client, StoreRequest request) {
    KeyStore::Replies replies;
    EXPECT_TRUE(store_.Handle(client, request, &replies).ok());
    return replies;
  }
  KeyStore::Replies Set(const std::string& key, const std::string& value) {
    return Ask(9, {Operation::kSet, {key}, {value}, 0});
  }
  std::string Get(const std::string& key) {
    return Ask(9, {Operation::kGet, {key}, {}, 0})[9].substr(8);
  }
  int64_t Add(const std::string& key, int64_t number) {
    const std::string reply = Ask(9, {Operation::kAdd, {key}, {}, number})[9];
    int64_t sum = 0;
    memcpy(&sum, reply.data(), sizeof sum);
    return sum;
  }
  KeyStore store_;
};

TEST_F(KeyStoreTest, KeepsValues) {
  EXPECT_THAT(Set("a", "1"), IsEmpty());
  EXPECT_EQ(Get("a"), "1");
  Ask(1, {Operation::kAppend, {"a"}, {"23"}, 0});
  EXPECT_EQ(Get("a"), "123");
  EXPECT_EQ(Get("none"), "");
}

TEST_F(KeyStoreTest, SumsAreText) {
  EXPECT_EQ(Add("n", 2), 2);
  EXPECT_EQ(Add("n", -5), -3);
  EXPECT_EQ(Get("n"), "-3");
  Set("text", "x");
  KeyStore::Replies replies;
  EXPECT_FALSE(store_.Handle(1, {Operation::kAdd, {"text"}, {}, 1}, &replies).ok());
}

TEST_F(KeyStoreTest, WaitsForAllKeys) {
  EXPECT_THAT(Ask(1, {Operation::kWait, {"a", "b"}, {}, 0}), IsEmpty());
  EXPECT_THAT(store_.Missing(), ElementsAre("a", "b"));
  EXPECT_THAT(Set("a", ""), IsEmpty());
  EXPECT_THAT(store_.Missing(), ElementsAre("b"));
  EXPECT_THAT(Ask(2, {Operation::kAdd, {"b"}, {}, 1}),
              ElementsAre(Pair(1, kAllThere), Pair(2, SizeIs(8))));
  EXPECT_THAT(Ask(1, {Operation::kWait, {"a"}, {}, 0}),
              ElementsAre(Pair(1, kAllThere)));
  EXPECT_THAT(store_.Missing(), IsEmpty());
}

TEST_F(KeyStoreTest, AWaitCanBeCancelled) {
  Ask(1, {Operation::kWait, {"a"}, {}, 0});
  EXPECT_THAT(Ask(1, {Operation::kCancelWait, {}, {}, 0}),
              ElementsAre(Pair(1, kCancelled)));
  EXPECT_THAT(Set("a", "1"), IsEmpty());
}

TEST_F(KeyStoreTest, AClientThatHasGoneWaitsForNothing) {
  Ask(1, {Operation::kWait, {"a"}, {}, 0});
  store_.Forget(1);
  EXPECT_THAT(store_.Missing(), IsEmpty());
  EXPECT_THAT(Set("a", "1"), IsEmpty());
}

TEST_F(KeyStoreTest, ChecksWithoutWaiting) {
  Set("a", "1");
  EXPECT_THAT(Ask(1, {Operation::kCheck, {"a"}, {}, 0}), ElementsAre(Pair(1, kReady)));
  EXPECT_THAT(Ask(1, {Operation::kCheck, {"a", "b"}, {}, 0}),
              ElementsAre(Pair(1, kNotReady)));
}

TEST_F(KeyStoreTest, ComparesBeforeItSets) {
  auto compare_set = [&](const std::string& expected, const std::string& wanted) {
    return Ask(1, {Operation::kCompareSet, {"a"}, {expected, wanted}, 0})[1].substr(8);
  };
  EXPECT_EQ(compare_set("old", "new"), "old");  // there is none: nothing is set
  EXPECT_FALSE(store_.Has("a"));
  EXPECT_EQ(compare_set("", "first"), "first");
  EXPECT_EQ(compare_set("other", "second"), "first");
  EXPECT_EQ(compare_set("first", "second"), "second");
}

TEST_F(KeyStoreTest, CountsAndDeletes) {
  Set("a", "1");
  Set("b", "1");
  EXPECT_EQ(Ask(1, {Operation::kCountKeys, {}, {}, 0})[1][0], 2);
  EXPECT_EQ(Ask(1, {Operation::kDelete, {"a"}, {}, 0})[1][0], 1);
  EXPECT_EQ(Ask(1, {Operation::kDelete, {"a"}, {}, 0})[1][0], 0);
  EXPECT_EQ(Ask(1, {Operation::kListKeys, {}, {}, 0})[1],
            std::string("\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0b", 17));
}

}  // namespace
}  // namespace vrank::emulator
