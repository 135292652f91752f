#include "emulator/store/absent_ranks.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using testing::HasSubstr;

TEST(AbsentRanksTest, IdsAreThoseOfTheirKeys) {
  std::set<std::string> ids;
  for (const char* key :
       {"/default_pg/0//cuda//0", "/default_pg/0//cuda//1", "/default_pg/0//cuda//0:1",
        "/default_pg/0//12//cuda//0", "/default_pg/0//cuda//UniqueNCCLID:1",
        "/default_pg/0//cuda//0/nccl_storekey_0",
        "/default_pg/0//cuda//0/nccl_storekey_0_1",
        "/default_pg/0//cuda//0/p2p-0-1-0/nccl_storekey_0"}) {
    const auto id = ValueOfAbsentRank(key);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_EQ(id->size(), 128u);
    EXPECT_EQ(*id, *ValueOfAbsentRank(key));
    ids.insert(*id);
  }
  EXPECT_EQ(ids.size(), 8u);
}

TEST(AbsentRanksTest, KeysThatAreLongerThanAnIdStayApart) {
  const std::string path(200, 'x');
  EXPECT_NE(*ValueOfAbsentRank(path + "a//cuda//0"),
            *ValueOfAbsentRank(path + "b//cuda//0"));
}

TEST(AbsentRanksTest, KeysHaveMeanings) {
  EXPECT_EQ(MeaningOfKey("/default_pg/0//cuda//0:1"),
            "the id of the communicator for sends and receives between ranks 0 and 1, "
            "set by rank 0 when it sends to rank 1 or receives from it");
  EXPECT_THAT(MeaningOfKey("/default_pg/0//3//cuda//1:2"),
              HasSubstr("set by rank 1 of the group when"));
  EXPECT_THAT(MeaningOfKey("/default_pg/0//cuda//0"), HasSubstr("set by rank 0 when"));
  EXPECT_THAT(MeaningOfKey("/default_pg/0//3//cuda//0"),
              HasSubstr("set by rank 0 of its group when"));
  EXPECT_THAT(MeaningOfKey("/default_pg/0//cpu//0/3"),
              HasSubstr("the address of rank 3 of a Gloo group"));
  EXPECT_THAT(MeaningOfKey("/b:last_worker"), HasSubstr("the end of a barrier"));
  EXPECT_THAT(MeaningOfKey("my_key"), HasSubstr("a key of the program"));
}

TEST(AbsentRanksTest, KeysNameTheEndsOfAPair) {
  const auto of_world = PairOf("/default_pg/0//cuda//3:12");
  ASSERT_TRUE(of_world.has_value());
  EXPECT_EQ(of_world->low, 3u);
  EXPECT_EQ(of_world->high, 12u);
  EXPECT_TRUE(of_world->of_world);
  const auto of_group = PairOf("/default_pg/0//7//cuda//0:1");
  ASSERT_TRUE(of_group.has_value());
  EXPECT_FALSE(of_group->of_world);
  for (const char* key :
       {"/default_pg/0//cuda//0", "/default_pg/0//cuda//UniqueNCCLID:1",
        "/default_pg/0//cuda//0:", "my:1"})
    EXPECT_FALSE(PairOf(key).has_value()) << key;
}

TEST(AbsentRanksTest, KeysOfPytorchAreToldFromThoseOfTheProgram) {
  for (const char* key :
       {"/default_pg/0//cuda//0:1", "/default_pg/0//cpu//0/3",
        "/store_based_barrier_key:1:last_worker", "/x/nccl_storekey_0_1"})
    EXPECT_TRUE(IsKeyOfPytorch(key)) << key;
  for (const char* key : {"/default_pg/0//other", "my_counter", ""})
    EXPECT_FALSE(IsKeyOfPytorch(key)) << key;
}

TEST(AbsentRanksTest, BarriersEnd) {
  EXPECT_EQ(*ValueOfAbsentRank("/store_based_barrier_key:1:last_worker"), "1");
}

TEST(AbsentRanksTest, WhatIsNotKnownIsNamed) {
  for (const char* key :
       {"/default_pg/0//cpu//0/3", "my_counter", "/x//cuda//abc", "/x/nccl_storekey_",
        "/x/nccl_storekey_0_", "/x/nccl_storekey_a_1", ""}) {
    const auto value = ValueOfAbsentRank(key);
    ASSERT_FALSE(value.ok()) << key;
    EXPECT_THAT(value.status().ToString(), HasSubstr(std::string("'") + key + "'"));
    EXPECT_THAT(value.status().ToString(), HasSubstr("--real"));
  }
}

}  // namespace
}  // namespace vrank::emulator
