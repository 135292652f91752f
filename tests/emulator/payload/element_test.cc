#include "emulator/payload/element.h"

#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using graph::ElementType;
using graph::Reduction;

template <typename T>
std::vector<std::byte> BytesOfValues(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> ValuesOfBytes(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(ElementTest, WrapsIntegersAround) {
  auto sum = BytesOfValues<int8_t>({127, -128});
  Accumulate(ElementType::kInt8, Reduction::kSum, sum, BytesOfValues<int8_t>({1, -1}));
  EXPECT_EQ(ValuesOfBytes<int8_t>(sum), (std::vector<int8_t>{-128, 127}));
  auto product = BytesOfValues<int64_t>({INT64_MAX});
  Accumulate(ElementType::kInt64, Reduction::kProd, product,
             BytesOfValues<int64_t>({2}));
  EXPECT_EQ(ValuesOfBytes<int64_t>(product), (std::vector<int64_t>{-2}));
}

TEST(ElementTest, ScalesIntegersExactly) {
  // 2^53 + 1 has no double: the way must not lead through floating point.
  const int64_t odd = (int64_t{1} << 53) + 1;
  auto values = BytesOfValues<int64_t>({odd, -7, 10});
  Scale(ElementType::kInt64, 8, 1, values);
  EXPECT_EQ(ValuesOfBytes<int64_t>(values), (std::vector<int64_t>{odd * 8, -56, 80}));
  auto thirds = BytesOfValues<uint32_t>({9, 10});
  Scale(ElementType::kUint32, 4, 3, thirds);
  EXPECT_EQ(ValuesOfBytes<uint32_t>(thirds), (std::vector<uint32_t>{12, 13}));
}

TEST(ElementTest, RaisesIntegersExactly) {
  auto values = BytesOfValues<int64_t>({3, -1, 2, 0});
  Raise(ElementType::kInt64, 39, values);
  EXPECT_EQ(ValuesOfBytes<int64_t>(values),
            (std::vector<int64_t>{4052555153018976267, -1, int64_t{1} << 39, 0}));
  auto wrapped = BytesOfValues<int8_t>({3});  // 3^7 = 2187 = 8 * 256 + 139
  Raise(ElementType::kInt8, 7, wrapped);
  EXPECT_EQ(ValuesOfBytes<int8_t>(wrapped), (std::vector<int8_t>{-117}));
  auto floats = BytesOfValues<float>({-1.5f, 0});
  Raise(ElementType::kFloat32, 3, floats);
  EXPECT_EQ(ValuesOfBytes<float>(floats), (std::vector<float>{-3.375f, 0}));
}

TEST(ElementTest, AveragesAsNcclDoes) {
  // Integers are divided after the sum, floats multiplied by 1/n before it.
  auto integers = BytesOfValues<int32_t>({7, -7});
  AverageBefore(ElementType::kInt32, 2, integers);
  EXPECT_EQ(ValuesOfBytes<int32_t>(integers), (std::vector<int32_t>{7, -7}));
  AverageAfter(ElementType::kInt32, 2, integers);
  EXPECT_EQ(ValuesOfBytes<int32_t>(integers), (std::vector<int32_t>{3, -3}));
  auto floats = BytesOfValues<float>({3.0f});
  AverageBefore(ElementType::kFloat32, 3, floats);
  EXPECT_EQ(ValuesOfBytes<float>(floats), (std::vector<float>{3.0f * (1.0f / 3.0f)}));
  // A third is 0.3125 there, and 3.125 rounds to 3.
  std::byte narrow[1];
  FromDouble(ElementType::kFloat8E5M2, 10, narrow);
  AverageBefore(ElementType::kFloat8E5M2, 3, narrow);
  EXPECT_EQ(ToDouble(ElementType::kFloat8E5M2, narrow), 3.0);
}

TEST(ElementTest, RoundsEveryStepToTheElementType) {
  // 256 + 1 is no bfloat16: each single step falls back to 256.
  std::byte sum[2], one[2];
  FromDouble(ElementType::kBfloat16, 256, sum);
  FromDouble(ElementType::kBfloat16, 1, one);
  for (int i = 0; i < 4; ++i)
    Accumulate(ElementType::kBfloat16, Reduction::kSum, sum, one);
  EXPECT_EQ(ToDouble(ElementType::kBfloat16, sum), 256);
}

TEST(ElementTest, TakesMaximaAndMinima) {
  auto values = BytesOfValues<uint8_t>({200, 1});
  Accumulate(ElementType::kUint8, Reduction::kMax, values,
             BytesOfValues<uint8_t>({3, 250}));
  EXPECT_EQ(ValuesOfBytes<uint8_t>(values), (std::vector<uint8_t>{200, 250}));
  auto doubles = BytesOfValues<double>({-1.5, 2});
  Accumulate(ElementType::kFloat64, Reduction::kMin, doubles,
             BytesOfValues<double>({0, -3}));
  EXPECT_EQ(ValuesOfBytes<double>(doubles), (std::vector<double>{-1.5, -3}));
  // Of a number and a NaN the number, whoever has which.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Reduction reduction : {Reduction::kMin, Reduction::kMax}) {
    auto floats = BytesOfValues<float>({nan, 1});
    Accumulate(ElementType::kFloat32, reduction, floats,
               BytesOfValues<float>({2, nan}));
    EXPECT_EQ(ValuesOfBytes<float>(floats), (std::vector<float>{2, 1}));
  }
}

}  // namespace
}  // namespace vrank::emulator
