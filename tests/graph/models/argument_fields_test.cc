// Parameters written out by hand.

#include "graph/models/argument_fields.h"

#include <cstring>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

ArgumentField Field(const std::string& text) {
  KernelCostEntry entry;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &entry));
  const auto fields = FieldsOf(entry);
  EXPECT_TRUE(fields.ok()) << fields.status();
  return fields->front();
}

// Three tensors of 10, 100 and 1,000 elements, worked on in chunks of 64 by five
// blocks: all of the first, both chunks of the second, the second and the last of the
// third.
struct Lists {
  int64_t sizes[3] = {10, 100, 1000};
  uint8_t tensors[8] = {0, 1, 1, 2, 2};
  int32_t chunks[8] = {0, 0, 1, 1, 15};
};

template <typename T>
std::span<const std::byte> Bytes(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

constexpr uint32_t kGrid[3] = {5, 3, 1};

TEST(ArgumentFieldsTest, ReadsNumbersOfEveryType) {
  const Lists lists;
  EXPECT_EQ(
      ReadField(Field("field { name: 'x' at: 8 type: INT64 }"), Bytes(lists), kGrid),
      100);
  EXPECT_EQ(
      ReadField(Field("field { name: 'x' at: 27 type: UINT8 }"), Bytes(lists), kGrid),
      2);
  EXPECT_EQ(ReadField(Field("field { name: 'x' at: 48 }"), Bytes(lists), kGrid), 15);
  const float number = 0.5f;
  EXPECT_EQ(ReadField(Field("field { name: 'x' type: FLOAT32 }"), Bytes(number), kGrid),
            0.5);
}

// PyTorch's OffsetCalculator for three operands: 2 x 3 x 5 elements, the innermost
// first; the second operand does not move along the second dimension, the third along
// the others.
struct Offsets {
  int64_t before = 0;
  int32_t dimensions = 3;
  uint32_t sizes[25][3] = {{5}, {3}, {2}};
  uint32_t strides[25][3] = {{4, 4, 0}, {20, 0, 4}, {60, 20, 0}};
};

TEST(ArgumentFieldsTest, SaysWhichShareOfAnOperandIsDistinct) {
  const auto share = [](const Offsets& offsets, int operand) {
    const std::string text =
        "operand { name: 'x' at: 8 operands: 3 operand: " + std::to_string(operand) +
        " }";
    return ReadField(Field(text), Bytes(offsets), kGrid);
  };
  Offsets offsets;
  EXPECT_EQ(share(offsets, 0), 1);
  EXPECT_EQ(share(offsets, 1), 1.0 / 3);
  EXPECT_EQ(share(offsets, 2), 0.1);
  offsets.dimensions = 26;
  EXPECT_EQ(share(offsets, 0), std::nullopt);
  offsets.dimensions = 3;
  EXPECT_EQ(ReadField(Field("operand { name: 'x' at: 8 operands: 3 }"),
                      Bytes(offsets).subspan(0, 320), kGrid),
            std::nullopt);

  KernelCostEntry entry;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "operand { name: 'x' at: 8 operands: 3 operand: 3 }", &entry));
  EXPECT_FALSE(FieldsOf(entry).ok());
}

TEST(ArgumentFieldsTest, CountsFromTheEnd) {
  const Lists lists;
  EXPECT_EQ(ReadField(Field("field { name: 'x' before_end: 16 }"), Bytes(lists), kGrid),
            15);
  EXPECT_EQ(ReadField(Field("field { name: 'x' before_end: 65 }"), Bytes(lists), kGrid),
            std::nullopt);
}

TEST(ArgumentFieldsTest, SaysHowLargeElementsAre) {
  // Half, float, complex numbers of two doubles, bool, bfloat16, quint8.
  const uint8_t types[] = {5, 6, 10, 11, 15, 13};
  const std::optional<double> bytes[] = {2, 4, 16, 1, 2, std::nullopt};
  for (size_t i = 0; i < std::size(types); ++i) {
    EXPECT_EQ(ReadField(Field("field { name: 'x' type: SCALAR_TYPE }"), Bytes(types[i]),
                        kGrid),
              bytes[i]);
  }
}

TEST(ArgumentFieldsTest, AddsUpAsManyAsTheGridSays) {
  const Lists lists;
  EXPECT_EQ(ReadField(Field("field { name: 'x' type: INT64 sum: GRID_Y }"),
                      Bytes(lists), kGrid),
            1110);
}

TEST(ArgumentFieldsTest, TakesTheLargestOfAsManyAsTheGridSays) {
  const Lists lists;
  EXPECT_EQ(ReadField(Field("field { name: 'x' type: INT64 largest: GRID_Y }"),
                      Bytes(lists), kGrid),
            1000);
  EXPECT_EQ(ReadField(Field("field { name: 'x' at: 32 largest: GRID_X }"), Bytes(lists),
                      kGrid),
            15);
  const int32_t negative[5] = {-7, -3, -5, -9, -4};
  EXPECT_EQ(
      ReadField(Field("field { name: 'x' largest: GRID_X }"), Bytes(negative), kGrid),
      -3);
}

TEST(ArgumentFieldsTest, CountsTheElementsOfChunks) {
  const Lists lists;
  EXPECT_EQ(ReadField(Field("chunks { name: 'n' chunk: 64 sizes_at: 0 tensors_at: 24 "
                            "chunks_at: 32 }"),
                      Bytes(lists), kGrid),
            10 + 64 + 36 + 64 + 40);
}

// As torch._foreach_ operators pass them: rows of addresses, sizes, of each block the
// tensor and its chunk.
template <int kTensors, int kBlocks, typename Index>
struct ForeachList {
  const void* addresses[2][kTensors] = {};
  int64_t sizes[kTensors] = {10, 100, 1000};
  Index tensors[kBlocks] = {0, 1, 1, 2, 2};
  int32_t chunks[kBlocks] = {0, 0, 1, 1, 15};
  int32_t first = 0;
};

TEST(ArgumentFieldsTest, CountsTheElementsOfForeachLists) {
  const ArgumentField field =
      Field("chunks { name: 'n' chunk: 64 list: PLAIN depth: 2 }");
  const ForeachList<64, 320, uint8_t> of_4_kib;
  const ForeachList<448, 2240, uint16_t> of_32_kib;
  EXPECT_EQ(ReadField(field, Bytes(of_4_kib), kGrid), 10 + 64 + 36 + 64 + 40);
  EXPECT_EQ(ReadField(field, Bytes(of_32_kib), kGrid), 10 + 64 + 36 + 64 + 40);
  const uint32_t many[3] = {2241, 1, 1};
  EXPECT_EQ(ReadField(field, Bytes(of_32_kib), many), std::nullopt);
  EXPECT_EQ(ReadField(field, Bytes(of_32_kib).first(20'000), kGrid), std::nullopt);
}

TEST(ArgumentFieldsTest, CountsTheRowsOfForeachListsThatDiffer) {
  const ArgumentField field =
      Field("chunks { name: 'n' chunk: 64 list: PLAIN depth: 2 count: ROWS }");
  ForeachList<64, 320, uint8_t> of_4_kib;
  ForeachList<448, 2240, uint16_t> of_32_kib;
  EXPECT_EQ(ReadField(field, Bytes(of_4_kib), kGrid), 1);
  of_4_kib.addresses[1][0] = of_32_kib.addresses[1][0] = &field;
  EXPECT_EQ(ReadField(field, Bytes(of_4_kib), kGrid), 2);
  EXPECT_EQ(ReadField(field, Bytes(of_32_kib), kGrid), 2);
  of_4_kib.addresses[0][0] = &field;
  EXPECT_EQ(ReadField(field, Bytes(of_4_kib), kGrid), 1);
}

TEST(ArgumentFieldsTest, RefusesListsThatThereAreNot) {
  for (const char* text : {"chunks { name: 'n' chunk: 64 count: ROWS }",
                           "chunks { name: 'n' chunk: 64 list: PLAIN }",
                           "chunks { name: 'n' chunk: 64 list: PLAIN depth: 6 }",
                           "chunks { name: 'n' chunk: 64 list: SCALARS depth: 1 }"}) {
    KernelCostEntry entry;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &entry));
    EXPECT_FALSE(FieldsOf(entry).ok()) << text;
  }
}

TEST(ArgumentFieldsTest, ReadsNothingOutsideOfTheParameters) {
  const Lists lists;
  EXPECT_EQ(ReadField(Field("field { name: 'x' at: 62 }"), Bytes(lists), kGrid),
            std::nullopt);
  EXPECT_EQ(ReadField(Field("field { name: 'x' at: 56 type: INT64 sum: GRID_X }"),
                      Bytes(lists), kGrid),
            std::nullopt);
  EXPECT_EQ(ReadField(Field("field { name: 'x' at: 4294967295 }"), Bytes(lists), kGrid),
            std::nullopt);
}

}  // namespace
}  // namespace vrank::graph
