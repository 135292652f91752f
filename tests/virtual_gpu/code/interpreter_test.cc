// Kernels that nvcc compiled, run by their machine code, against the same computed
// here; then the same with unknown input, where nothing unknown may look known.

#include "virtual_gpu/code/interpreter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/virtual_gpu/code/interpreter_fixture.h"

namespace vrank::gpu {
namespace {

// The upper half of a product, by halves.
int64_t HighProduct(int64_t a, int64_t b) {
  const int64_t a_high = a >> 32, b_high = b >> 32;
  const auto a_low = static_cast<int64_t>(a & 0xffffffff);
  const auto b_low = static_cast<int64_t>(b & 0xffffffff);
  const auto low = static_cast<int64_t>(
      static_cast<uint64_t>(a_low) * static_cast<uint64_t>(b_low) >> 32);
  const int64_t middle = a_high * b_low + low;
  const int64_t other = a_low * b_high + (middle & 0xffffffff);
  return a_high * b_high + (middle >> 32) + (other >> 32);
}

TEST_P(InterpreterTest, Fills) {
  const uint64_t out = Output<int64_t>(kElements);
  Run("fill", Parameters(out, kElements, int64_t{-3}), 2, 32, &buffers_);
  const auto got = buffers_.Get<int64_t>(out);
  for (int i = 0; i < kElements; ++i)
    EXPECT_EQ(got[static_cast<size_t>(i)], i - 3);
}

TEST_P(InterpreterTest, Compares) {
  const auto a = Random<int64_t>(4 * kElements, -2, 2);
  const uint64_t in = buffers_.Add(a), out = Output<uint8_t>(4 * kElements),
                 packed = Output<uint8_t>(4 * kElements);
  Check("equals", Parameters(in, out, 4 * kElements, int64_t{1}), 4, 128, {in});
  Check("compares4", Parameters(in, packed, kElements, int64_t{1}), 1, 128, {in});
  const auto equal = buffers_.Get<uint8_t>(out), four = buffers_.Get<uint8_t>(packed);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(equal[i], a[i] == 1);
    EXPECT_EQ(four[i], i % 4 == 0   ? a[i] < 1
                       : i % 4 == 1 ? a[i] <= 1
                       : i % 4 == 2 ? a[i] != 1
                                    : a[i] > 1);
  }
}

TEST_P(InterpreterTest, Divides) {
  auto a = Random<int>(kElements);
  auto b = Random<int>(kElements, -1000, 1000);
  std::replace(b.begin(), b.end(), 0, 3);
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                 quotient = Output<int>(kElements), rest = Output<int>(kElements),
                 plain = Output<uint32_t>(kElements);
  Check("divides", Parameters(in_a, in_b, quotient, rest, kElements), 1, 128,
        {in_a, in_b});
  Check("divides_unsigned", Parameters(in_a, in_b, plain, kElements), 1, 128,
        {in_a, in_b});
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(buffers_.Get<int>(quotient)[i], a[i] / b[i]) << a[i] << " " << b[i];
    EXPECT_EQ(buffers_.Get<int>(rest)[i], a[i] % b[i]);
    EXPECT_EQ(buffers_.Get<uint32_t>(plain)[i],
              static_cast<uint32_t>(a[i]) / static_cast<uint32_t>(b[i]));
  }
}

TEST_P(InterpreterTest, ComputesWith64Bits) {
  auto a = Random<int64_t>(kElements);
  auto b = Random<int64_t>(kElements);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = (b[i] >> i % 60) | 1;
  const auto by = Random<int>(kElements, 0, 63);
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                 in_by = buffers_.Add(by);
  const uint64_t quotient = Output<int64_t>(kElements),
                 rest = Output<int64_t>(kElements), low = Output<int64_t>(kElements),
                 high = Output<int64_t>(kElements), left = Output<int64_t>(kElements),
                 right = Output<int64_t>(kElements),
                 signed_right = Output<int64_t>(kElements);
  Check("divides_long", Parameters(in_a, in_b, quotient, rest, kElements), 1, 128,
        {in_a, in_b});
  Check("multiplies_long", Parameters(in_a, in_b, low, high, kElements), 1, 128,
        {in_a, in_b});
  Check("shifts", Parameters(in_a, in_by, left, right, signed_right, kElements), 1, 128,
        {in_a, in_by});
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(buffers_.Get<int64_t>(quotient)[i], a[i] / b[i]) << a[i] << " " << b[i];
    EXPECT_EQ(buffers_.Get<int64_t>(rest)[i], a[i] % b[i]);
    const auto unsigned_a = static_cast<uint64_t>(a[i]);
    EXPECT_EQ(buffers_.Get<uint64_t>(low)[i],
              unsigned_a * static_cast<uint64_t>(b[i]) - unsigned_a);
    EXPECT_EQ(buffers_.Get<int64_t>(high)[i], HighProduct(a[i], b[i]));
    EXPECT_EQ(buffers_.Get<uint64_t>(left)[i], unsigned_a << by[i]);
    EXPECT_EQ(buffers_.Get<uint64_t>(right)[i], unsigned_a >> by[i]);
    EXPECT_EQ(buffers_.Get<int64_t>(signed_right)[i], a[i] >> by[i]);
  }
}

// The upper half is unknown where an unknown byte of the lower one decides the carry.
TEST_P(InterpreterTest, CarriesWhatIsKnown) {
  auto a = Random<int64_t>(kElements), b = Random<int64_t>(kElements);
  for (int64_t& each : b)
    each = (each & ~int64_t{0xffffffff}) | 0x80000000;
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                 sum = Output<int64_t>(kElements);
  for (int round = 0; round < 4; ++round)
    Check("adds_long", Parameters(in_a, in_b, sum, kElements), 1, 128, {in_a, in_b});
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(buffers_.Get<uint64_t>(sum)[i],
              static_cast<uint64_t>(a[i]) + static_cast<uint64_t>(b[i]));
}

TEST_P(InterpreterTest, CountsBits) {
  auto a = Random<uint32_t>(kElements);
  a[0] = 0;
  a[1] = 1;
  const uint64_t in = buffers_.Add(a), out = Output<uint32_t>(kElements);
  Check("bits", Parameters(in, out, kElements), 1, 128, {in});
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i];
    uint32_t reversed = 0;
    for (unsigned k = 0; k < 32; ++k)
      reversed |= (x >> k & 1) << (31 - k);
    const auto first = static_cast<uint32_t>(x == 0 ? 0 : std::countr_zero(x) + 1);
    const uint32_t expected =
        static_cast<uint32_t>(std::popcount(x)) +
        100 * static_cast<uint32_t>(std::countl_zero(x)) + 10000 * first +
        (reversed & 0xff000000) +
        ((x & 0xffff) | (~x & 0xffff) << 16 ? ((~x & 0xffff) << 16 & 0x00f00000) : 0);
    EXPECT_EQ(buffers_.Get<uint32_t>(out)[i], expected) << x;
  }
}

TEST_P(InterpreterTest, FindsLeastAndMost) {
  const auto a = Random<int>(kElements), b = Random<int>(kElements);
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                 least = Output<int>(kElements), most = Output<int>(kElements),
                 wide = Output<int64_t>(kElements);
  Check("least_and_most", Parameters(in_a, in_b, least, most, wide, kElements), 1, 128,
        {in_a, in_b});
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(buffers_.Get<int>(least)[i], std::min(a[i], b[i]));
    EXPECT_EQ(buffers_.Get<uint32_t>(most)[i],
              std::max(static_cast<uint32_t>(a[i]), static_cast<uint32_t>(b[i])));
    EXPECT_EQ(buffers_.Get<int64_t>(wide)[i],
              (int64_t{std::max(a[i], b[i])} << 20) + std::abs(a[i]));
  }
}

TEST_P(InterpreterTest, SumsOverBlocks) {
  const auto a = Random<int64_t>(1000, -1'000'000'000'000, 1'000'000'000'000);
  const uint64_t in = buffers_.Add(a), out = Output<int64_t>(1);
  Check("sums", Parameters(in, out, 1000), 3, 128, {in});
  int64_t sum = 0;
  for (const int64_t value : a)
    sum += value;
  EXPECT_EQ(buffers_.Get<int64_t>(out)[0], sum);
}

TEST_P(InterpreterTest, AsksAllThreadsOfABlock) {
  for (const int wrong : {-1, 77}) {
    std::vector<uint8_t> a(kElements, 1);
    if (wrong >= 0)
      a[static_cast<size_t>(wrong)] = 0;
    const uint64_t in = buffers_.Add(a), out = Output<int>(3);
    Check("all_true", Parameters(in, out, kElements), 1, 160, {in});
    EXPECT_EQ(buffers_.Get<int>(out)[0], wrong < 0);
    EXPECT_EQ(buffers_.Get<int>(out)[1], wrong >= 0);
    EXPECT_EQ(buffers_.Get<int>(out)[2], wrong < 0 ? 160 : 159);
  }
}

TEST_P(InterpreterTest, ScansCountsAndSorts) {
  const auto a = Random<int>(256, -1000, 1000);
  const auto bytes = Random<uint8_t>(500, 0, 255);
  const uint64_t in = buffers_.Add(a), in_bytes = buffers_.Add(bytes),
                 sums = Output<int>(256), bins = Output<int>(256),
                 sorted = Output<int>(256);
  Check("scans", Parameters(in, sums, 250), 1, 256, {in});
  Check("counts", Parameters(in_bytes, bins, 500), 1, 256, {in_bytes});
  Check("sorts", Parameters(in, sorted), 1, 256, {in});
  std::vector<int> expected = a;
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(buffers_.Get<int>(sorted), expected);
  int sum = 0;
  for (size_t i = 0; i < 250; ++i) {
    sum += a[i];
    EXPECT_EQ(buffers_.Get<int>(sums)[i], sum);
  }
  for (size_t i = 0; i < 256; ++i)
    EXPECT_EQ(buffers_.Get<int>(bins)[i],
              std::count(bytes.begin(), bytes.end(), static_cast<uint8_t>(i)));
}

TEST_P(InterpreterTest, FollowsEachLane) {
  const auto a = Random<uint32_t>(kElements);
  const uint64_t in = buffers_.Add(a), out = Output<int>(kElements);
  Check("diverges", Parameters(in, out, kElements), 2, 64, {in});
  for (size_t i = 0; i < a.size(); ++i) {
    uint64_t x = a[i] % 1000 + 1;
    int steps = 0;
    while (x != 1) {
      x = x % 2 == 0 ? x / 2 : 3 * x + 1;
      if (++steps == 150)
        break;
    }
    const int expected[] = {steps + 1000, steps * 3, steps - 7, steps ^ 0x55, -steps};
    EXPECT_EQ(buffers_.Get<int>(out)[i], expected[a[i] % 5]);
  }
}

TEST_P(InterpreterTest, HasLocalMemory) {
  const auto a = Random<uint8_t>(8 * kElements, 0, 255);
  const uint64_t in = buffers_.Add(a), out = Output<int>(kElements);
  Check("local_arrays", Parameters(in, out, kElements), 1, 128, {in});
  for (size_t i = 0; i < kElements; ++i) {
    int table[16];
    for (int k = 0; k < 16; ++k)
      table[k] = k * k + static_cast<int>(i);
    for (size_t k = 0; k < 8; ++k)
      table[a[8 * i + k] % 16] += table[(a[8 * i + k] / 16) % 16];
    uint32_t sum = 0;
    for (const int value : table)
      sum = sum * 3 + static_cast<uint32_t>(value);
    EXPECT_EQ(buffers_.Get<uint32_t>(out)[i], sum);
  }
}

TEST_P(InterpreterTest, ExchangesBetweenLanes) {
  const auto a = Random<int>(64, -20, 60);
  const uint64_t in = buffers_.Add(a), out = Output<uint32_t>(64);
  Check("votes", Parameters(in, out, 64), 1, 64, {in});
  for (size_t i = 0; i < 64; ++i) {
    const size_t warp = i / 32 * 32;
    uint32_t ballot = 0, same = 0, total = 0;
    int least = a[warp];
    bool all = true, any = false;
    for (size_t k = 0; k < 32; ++k) {
      const int value = a[warp + k];
      ballot |= value > 10 ? 1u << k : 0;
      same |= (value & 3) == (a[i] & 3) ? 1u << k : 0;
      total += static_cast<uint32_t>(value);
      least = std::min(least, value);
      all = all && value > 0;
      any = any || value > 50;
    }
    const auto segment = static_cast<size_t>(a[i] & 7) + i / 8 * 8;
    const uint32_t expected = ballot + 3 * same + 5 * total +
                              7 * static_cast<uint32_t>(least) + (all ? 1 : 0) +
                              (any ? 2 : 0) +
                              static_cast<uint32_t>(a[warp + ((i % 32) ^ 5)]) +
                              static_cast<uint32_t>(a[segment]);
    EXPECT_EQ(buffers_.Get<uint32_t>(out)[i], expected) << i;
  }
}

TEST_P(InterpreterTest, ExchangesInMemory) {
  const auto locks = Random<int>(kElements + 2, 0, 2);
  const uint64_t in = buffers_.Add(locks), out = Output<int>(kElements);
  Check("exchanges", Parameters(in, out, kElements), 1, 128, {in});
  int most = locks[kElements], bits = locks[kElements + 1];
  for (int i = 0; i < kElements; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(buffers_.Get<int>(out)[at], locks[at]);
    EXPECT_EQ(buffers_.Get<int>(in)[at], locks[at] == i % 3 ? 77 : locks[at]);
    most = std::max(most, i * 7 % 101);
    bits ^= i;
  }
  EXPECT_EQ(buffers_.Get<int>(in)[kElements], most);
  EXPECT_EQ(buffers_.Get<int>(in)[kElements + 1], bits);
}

TEST_P(InterpreterTest, PacksBytes) {
  const auto a = Random<uint8_t>(4 * kElements, 0, 255),
             b = Random<uint8_t>(4 * kElements, 0, 255);
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                 out = Output<uint8_t>(4 * kElements);
  Check("packs", Parameters(in_a, in_b, out, kElements), 1, 128, {in_a, in_b});
  for (size_t i = 0; i < a.size(); ++i) {
    const int expected = i % 4 == 0   ? a[i] + b[i]
                         : i % 4 == 1 ? a[i] & b[i]
                         : i % 4 == 2 ? std::max(a[i], b[i])
                                      : static_cast<int8_t>(a[i]) >> 1;
    EXPECT_EQ(buffers_.Get<uint8_t>(out)[i], static_cast<uint8_t>(expected));
  }
}

TEST_P(InterpreterTest, ExtendsSigns) {
  const auto a = Random<int8_t>(kElements, -128, 127);
  const uint64_t in = buffers_.Add(a), out = Output<int>(kElements);
  Check("widens", Parameters(in, out, kElements), 1, 128, {in});
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(buffers_.Get<int>(out)[i], a[i]);
}

TEST_P(InterpreterTest, KnowsNothingOfAbsentLanes) {
  const auto a = Random<int>(16);
  const uint64_t in = buffers_.Add(a), out = Output<int>(16);
  const Outcome outcome =
      Run("asks_absent_lanes", Parameters(in, out), 1, 32, &buffers_);
  ASSERT_EQ(outcome.kind, Outcome::Kind::kDone) << outcome.what;
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(buffers_.At(out).known[4 * i] != 0, i < 8) << i;
    if (i < 8) {
      EXPECT_EQ(buffers_.Get<int>(out)[i], a[2 * i]);
    }
  }
}

TEST_P(InterpreterTest, BlocksOfLessThanAWarpReduce) {
  const std::vector<int> a = {3, 1, 9, 4, 9, 2, 6, 5};
  const uint64_t in = buffers_.Add(a), out = buffers_.Add(std::vector<int>(3));
  const Outcome outcome = Run("finds_largest", Parameters(in, out), 1, 8, &buffers_);
  ASSERT_EQ(outcome.kind, Outcome::Kind::kDone) << outcome.what;
  EXPECT_EQ(buffers_.Get<int>(out)[0], 9);
  EXPECT_EQ(buffers_.Get<int>(out)[1], 2);
}

TEST_P(InterpreterTest, AtomicsReturnWhatWasThere) {
  const uint64_t next = buffers_.Add(std::vector<int>(1)),
                 total = buffers_.Add(std::vector<int64_t>{1}), ticket = Output<int>(3),
                 larger = Output<int>(3);
  const Outcome outcome =
      Run("takes_tickets", Parameters(next, total, ticket, larger), 3, 32, &buffers_);
  ASSERT_EQ(outcome.kind, Outcome::Kind::kDone) << outcome.what;
  EXPECT_EQ(buffers_.Get<int>(ticket), (std::vector<int>{0, 8, 13}));
  EXPECT_EQ(buffers_.Get<int>(larger), (std::vector<int>{5, 13, 18}));
  EXPECT_EQ(buffers_.Get<int>(next)[0], 18);
  EXPECT_EQ(buffers_.Get<int64_t>(total)[0], 8);
}

TEST_P(InterpreterTest, ComputesWithFloats) {
  std::vector<float> a(kElements), b(kElements);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = std::ldexp(static_cast<float>(static_cast<int>(random_() % 2000) - 1000),
                      static_cast<int>(random_() % 20) - 10);
    b[i] = static_cast<float>(random_() % 1000) / 7.0f;
  }
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                 out = Output<float>(kElements);
  Check("floats", Parameters(in_a, in_b, out, kElements), 1, 128, {in_a, in_b});
  for (size_t i = 0; i < a.size(); ++i) {
    float x = std::fma(a[i], b[i], 1.5f);
    x = x > b[i] ? x - a[i] : std::fmax(x, a[i]);
    EXPECT_EQ(buffers_.Get<float>(out)[i],
              x + static_cast<float>(static_cast<int>(a[i])));
  }
}

TEST_P(InterpreterTest, CallsItself) {
  std::vector<int> a(kElements);
  for (int& value : a)
    value = static_cast<int>(random_() % 10);
  const uint64_t in = buffers_.Add(a), out = Output<int>(kElements);
  Check("recursion", Parameters(in, out, kElements), 1, 128, {in});
  const int fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(buffers_.Get<int>(out)[i], fibonacci[a[i]]) << a[i];
}

TEST_P(InterpreterTest, SwitchesByATable) {
  auto a = Random<uint32_t>(kElements, 0, 12), b = Random<uint32_t>(kElements);
  // Sums that wrap, and sums that just do not.
  for (size_t i = 0; i < a.size(); i += 4)
    b[i] = 0 - a[i] - static_cast<uint32_t>(i / 4 % 2);
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                 out = Output<uint32_t>(3 * kElements);
  Check("switches", Parameters(in_a, in_b, out, kElements), 1, 128, {in_a, in_b});
  const auto got = buffers_.Get<uint32_t>(out);
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i];
    uint32_t reversed = 0;
    for (unsigned k = 0; k < 32; ++k)
      reversed |= (y >> k & 1) << (31 - k);
    const std::map<uint32_t, uint32_t> cases = {{3, y * 7},    {4, y / 3},
                                                {5, y ^ 0x55}, {6, std::popcount(y)},
                                                {7, y - 1},    {8, reversed}};
    EXPECT_EQ(got[i], cases.contains(x) ? cases.at(x) : 0) << x << " " << y;
    EXPECT_EQ(got[kElements + i], std::min(x + y, x)) << x << " " << y;
    EXPECT_EQ(got[2 * kElements + i], std::max(x - 6 + y, 17u)) << x << " " << y;
  }
}

TEST_P(InterpreterTest, ClampsAtZero) {
  const auto a = Random<int>(kElements, -1000, 1000),
             b = Random<int>(kElements, -1000, 1000);
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                 out = Output<int>(3 * kElements);
  Check("clamps", Parameters(in_a, in_b, out, kElements), 1, 128, {in_a, in_b});
  const auto got = buffers_.Get<int>(out);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(got[i], std::max(std::min(a[i], b[i]), 0));
    EXPECT_EQ(got[kElements + i], std::max(std::min(a[i] - 1, b[i]), 0));
    EXPECT_EQ(got[2 * kElements + i], std::max({a[i] + b[i], -7, 0}));
  }
}

TEST_P(InterpreterTest, ResolvesGenericAddresses) {
  constexpr int kThreads = 32;
  const auto a = Random<int>(kThreads, -1000, 1000);
  const uint64_t in = buffers_.Add(a), out = Output<int>(3 * kThreads);
  Check("anywhere", Parameters(in, out, kThreads), 1, kThreads, {in});
  const auto got = buffers_.Get<int>(out);
  for (int i = 0; i < kThreads; ++i) {
    const int first = a[0] + a[1] + a[2] + a[3];
    EXPECT_EQ(got[i], i % 3 == 2 ? 6 * a[i] : first) << i;
    EXPECT_EQ(got[kThreads + i], i % 2 == 0 ? 3 * i : 0) << i;
    EXPECT_EQ(got[2 * kThreads + i], i % 2 == 0 ? a[i] : 3 * i) << i;
  }
}

TEST_P(InterpreterTest, RunsOnWhatNothingWroteToSharedMemory) {
  constexpr int kThreads = 64;
  for (const int n : {1, 37, 64}) {
    const auto a = Random<int>(kThreads, 0, 1000);
    const uint64_t in = buffers_.Add(a), out = Output<int>(kThreads);
    Check("pads", Parameters(in, out, n), 1, kThreads, {in});
    const auto got = buffers_.Get<int>(out);
    for (int i = 0; i < kThreads; ++i) {
      const auto count = static_cast<size_t>(a[i] & 7);
      EXPECT_EQ(got[i],
                i < n ? std::accumulate(a.begin(),
                                        a.begin() + static_cast<ptrdiff_t>(count), 0)
                      : -1)
          << i << " of " << n;
    }
  }
}

TEST_P(InterpreterTest, EndsWhereAnUnknownByteDecides) {
  const uint64_t in = buffers_.Add(std::vector<int>{7}), out = Output<int>(32);
  buffers_.At(in).known[0] = 0;
  const Outcome outcome = Run("unknown_branch", Parameters(in, out), 1, 32, &buffers_);
  EXPECT_EQ(outcome.kind, Outcome::Kind::kUnknown);
  EXPECT_EQ(buffers_.Get<int>(out), std::vector<int>(32));
}

TEST_P(InterpreterTest, SaysWhichAssertionsFail) {
  std::vector<int> at(64, 3);
  const uint64_t table = buffers_.Add(std::vector<int>{5, 6, 7, 8}),
                 out = Output<int>(64), good = buffers_.Add(at);
  at[37] = at[40] = 4;
  const uint64_t bad = buffers_.Add(at);
  EXPECT_EQ(Run("looks_up", Parameters(good, table, out, 4), 2, 32, &buffers_).kind,
            Outcome::Kind::kDone);
  const Outcome outcome =
      Run("looks_up", Parameters(bad, table, out, 4), 2, 32, &buffers_);
  EXPECT_EQ(outcome.kind, Outcome::Kind::kAssertion);
  const std::string line =
      R"([^ ]*integers\.cu:[0-9]+: void looks_up\(.*\): block: \[1,0,0\], thread: )";
  const std::string failed =
      R"( Assertion `at\[i\] >= 0 && at\[i\] < n && "not in the table"` failed\.\n)";
  EXPECT_TRUE(std::regex_match(
      outcome.what,
      std::regex(line + R"(\[5,0,0\])" + failed + line + R"(\[8,0,0\])" + failed)))
      << outcome.what;
  buffers_.At(bad).known[37 * sizeof(int)] = 0;
  EXPECT_EQ(Run("looks_up", Parameters(bad, table, out, 4), 2, 32, &buffers_).kind,
            Outcome::Kind::kUnknown);
}

TEST_P(InterpreterTest, KeepsToItsBudget) {
  const uint64_t out = Output<int>(2);
  const Outcome outcome = Run("endless", Parameters(out), 1, 32, &buffers_);
  EXPECT_EQ(outcome.kind, Outcome::Kind::kBudget);
  EXPECT_GE(outcome.thread_instructions, 4'000'000u);
  EXPECT_LE(outcome.thread_instructions, 4'000'032u);
}

TEST_P(InterpreterTest, EndsOutsideOfMemory) {
  const Outcome outcome =
      Run("fill", Parameters(uint64_t{0x1000}, 1, int64_t{1}), 1, 32, &buffers_);
  EXPECT_EQ(outcome.kind, Outcome::Kind::kFault);
}

INSTANTIATE_TEST_SUITE_P(Architectures, InterpreterTest, testing::Values(80, 90));

}  // namespace
}  // namespace vrank::gpu
