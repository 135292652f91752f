#include "emulator/store/store_request.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using testing::ElementsAre;
using Operation = StoreRequest::Operation;

std::string Bytes(Operation operation) {
  return std::string(1, static_cast<char>(operation));
}

std::string SetMany() {
  std::string bytes = Bytes(Operation::kSetMany);
  AppendNumber(&bytes, 2, 8);
  for (const char* text : {"k1", "v1", "k2", ""})
    AppendText(&bytes, text);
  return bytes;
}

// Lengths and numbers as bytes, so that the form itself is held and not just its
// inverse.
TEST(StoreRequestTest, NumbersAreLittleEndian) {
  const std::string bytes("\x04\x01\0\0\0\0\0\0\0k\x02\x01\0\0\0\0\0\0", 18);
  std::string_view rest = bytes;
  const auto request = ReadStoreRequest(&rest);
  ASSERT_TRUE(request.ok() && request->has_value());
  EXPECT_EQ((*request)->operation, Operation::kAdd);
  EXPECT_THAT((*request)->keys, ElementsAre("k"));
  EXPECT_EQ((*request)->number, 0x102);
  EXPECT_TRUE(rest.empty());
}

TEST(StoreRequestTest, WaitsUntilARequestIsComplete) {
  const std::string bytes = SetMany();
  for (size_t length = 0; length < bytes.size(); ++length) {
    std::string_view rest(bytes.data(), length);
    const auto request = ReadStoreRequest(&rest);
    ASSERT_TRUE(request.ok()) << length;
    EXPECT_FALSE(request->has_value()) << length;
    EXPECT_EQ(rest.size(), length);
  }
  const std::string two = bytes + Bytes(Operation::kCountKeys);
  std::string_view rest = two;
  const auto request = ReadStoreRequest(&rest);
  ASSERT_TRUE(request.ok() && request->has_value());
  EXPECT_THAT((*request)->keys, ElementsAre("k1", "k2"));
  EXPECT_THAT((*request)->values, ElementsAre("v1", ""));
  EXPECT_EQ(rest.size(), 1u);
}

TEST(StoreRequestTest, RefusesQueuesAndAbsurdLengths) {
  std::string_view queue("\x0e", 1);
  EXPECT_EQ(ReadStoreRequest(&queue).status().code(), absl::StatusCode::kUnimplemented);
  for (const Operation operation : {Operation::kGet, Operation::kWait}) {
    std::string bytes = Bytes(operation);
    AppendNumber(&bytes, ~uint64_t{0}, 8);
    std::string_view rest = bytes;
    EXPECT_TRUE(absl::IsInvalidArgument(ReadStoreRequest(&rest).status()));
  }
}

// Before any of the bytes that it announces has come.
TEST(StoreRequestTest, TakesWhatPyTorchsOwnStoreTakesAndNoMore) {
  for (const uint64_t more : {0, 1}) {
    std::string key = Bytes(Operation::kGet);
    AppendNumber(&key, kLongestStoreKey + more, 8);
    std::string value = Bytes(Operation::kSet);
    AppendText(&value, "key");
    AppendNumber(&value, kLongestStoreValue + more, 8);
    std::string keys = Bytes(Operation::kWait);
    AppendNumber(&keys, kMostStoreKeys + more, 8);
    for (const std::string& bytes : {key, value, keys}) {
      std::string_view rest = bytes;
      EXPECT_EQ(ReadStoreRequest(&rest).ok(), more == 0);
    }
  }
}

TEST(StoreRequestTest, ARequestOfManyValuesHasALimit) {
  std::string bytes = Bytes(Operation::kSetMany);
  AppendNumber(&bytes, 100, 8);
  const std::string value(kLongestStoreValue, 'v');
  while (bytes.size() <= kLongestStoreRequest) {
    std::string_view rest = bytes;
    ASSERT_TRUE(ReadStoreRequest(&rest).ok());
    AppendText(&bytes, "key");
    AppendText(&bytes, value);
  }
  std::string_view rest = bytes;
  EXPECT_TRUE(absl::IsInvalidArgument(ReadStoreRequest(&rest).status()));
}

TEST(StoreRequestTest, SurvivesAnyBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random() % 3 == 0 ? random() : random() % 18);
    std::string_view rest = bytes;
    for (auto request = ReadStoreRequest(&rest); request.ok() && request->has_value();
         request = ReadStoreRequest(&rest)) {
    }
  }
}

}  // namespace
}  // namespace vrank::emulator
