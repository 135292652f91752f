// What a hold writes, against the emulator's arithmetic, which knows of no GPU.

#include "gpu_hold/hold_result.h"

#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/guest/element_bytes.h"
#include "emulator/payload/element.h"
#include "tests/gpu_hold/fake_device.h"

namespace vrank::hold {
namespace {

using protocol::ElementType;

constexpr ElementType kTypes[] = {
    ElementType::kInt8,    ElementType::kUint8,      ElementType::kInt32,
    ElementType::kUint32,  ElementType::kInt64,      ElementType::kUint64,
    ElementType::kFloat16, ElementType::kBfloat16,   ElementType::kFloat32,
    ElementType::kFloat64, ElementType::kFloat8E4M3, ElementType::kFloat8E5M2};

void Fill(const HeldResult& result, uint64_t threads) {
  for (uint64_t thread = 0; thread < threads; ++thread)
    FillResult<HostNarrow>(result, {thread, threads});
}

std::vector<std::byte> RandomNumbers(ElementType type, size_t count,
                                     std::mt19937& random) {
  std::uniform_int_distribution<int> number(-9, 9);
  const size_t size = protocol::ElementBytes(type);
  std::vector<std::byte> bytes(count * size);
  for (size_t i = 0; i < count; ++i)
    emulator::FromDouble(static_cast<graph::ElementType>(type), number(random),
                         bytes.data() + i * size);
  return bytes;
}

TEST(HoldResultTest, SumsAreTheValueTimesTheMembersInEveryType) {
  std::mt19937 random(1);
  for (const ElementType type : kTypes)
    for (const size_t shift : {size_t{0}, size_t{1}}) {
      const size_t size = protocol::ElementBytes(type);
      std::vector<std::byte> from = RandomNumbers(type, 65, random);
      std::vector<std::byte> to(from.size());
      std::vector<std::byte> expected(
          from.begin() + static_cast<std::ptrdiff_t>(shift * size), from.end());
      expected.resize(expected.size() - (1 - shift) * size);
      emulator::Scale(static_cast<graph::ElementType>(type), 7, 1, expected);
      HeldResult result;
      result.from = from.data() + shift * size;  // aligned for vectors, or not
      result.to = to.data();
      result.bytes = expected.size();
      result.times = 1;
      result.members = 7;
      result.type = type;
      Fill(result, 6);
      EXPECT_EQ(memcmp(to.data(), expected.data(), expected.size()), 0)
          << "type " << static_cast<int>(type) << ", shift " << shift;
    }
}

TEST(HoldResultTest, PremultipliedSumsTakeTheScalarToo) {
  for (const ElementType type : kTypes) {
    const size_t size = protocol::ElementBytes(type);
    const auto graph_type = static_cast<graph::ElementType>(type);
    alignas(16) std::byte from[16], to[16];
    HeldResult result;
    for (size_t i = 0; i < sizeof from / size; ++i)
      emulator::FromDouble(graph_type, 2, from + i * size);
    emulator::FromDouble(graph_type, 3, reinterpret_cast<std::byte*>(result.scalar));
    result.from = from;
    result.to = to;
    result.bytes = sizeof from;
    result.times = 1;
    result.members = 4;
    result.multiplied = true;
    result.type = type;
    Fill(result, 2);
    EXPECT_EQ(emulator::ToDouble(graph_type, to), 24) << static_cast<int>(type);
    alignas(8) unsigned char on_device[8];
    memcpy(on_device, result.scalar, sizeof on_device);
    memset(result.scalar, 0, sizeof result.scalar);
    result.device_scalar = on_device;
    memset(to, 0, sizeof to);
    Fill(result, 2);
    EXPECT_EQ(emulator::ToDouble(graph_type, to), 24) << static_cast<int>(type);
  }
}

TEST(HoldResultTest, GathersHoldTheContributionInEveryPlace) {
  std::mt19937 random(2);
  for (const size_t bytes : {size_t{1}, size_t{16}, size_t{17}, size_t{4096}}) {
    const std::vector<std::byte> from =
        RandomNumbers(ElementType::kInt8, bytes, random);
    constexpr uint32_t kMembers = 5;
    std::vector<std::byte> to(bytes * kMembers + 1, std::byte{0x5a});
    HeldResult result;
    result.from = from.data();
    result.to = to.data();
    result.bytes = bytes;
    result.times = kMembers;
    Fill(result, 3);
    for (size_t i = 0; i < bytes * kMembers; ++i)
      ASSERT_EQ(to[i], from[i % bytes]) << bytes << " bytes, at " << i;
    EXPECT_EQ(to.back(), std::byte{0x5a});
    // In place: the contribution is one of the places.
    std::vector<std::byte> own(bytes * kMembers);
    memcpy(own.data() + 2 * bytes, from.data(), bytes);
    result.from = own.data() + 2 * bytes;
    result.to = own.data();
    Fill(result, 3);
    for (size_t i = 0; i < own.size(); ++i)
      ASSERT_EQ(own[i], from[i % bytes]) << bytes << " bytes in place, at " << i;
  }
}

}  // namespace
}  // namespace vrank::hold
