// Floats of every size in kernels that nvcc compiled, against the host's arithmetic;
// then the same with unknown input, where nothing unknown may look known.

#include <cuda_fp8.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/virtual_gpu/code/interpreter_fixture.h"
#include "virtual_gpu/code/float_format.h"

namespace vrank::gpu {
namespace {

// The host's result in another rounding mode.
template <typename Float, typename Function>
Float In(int mode, Function function) {
  std::fesetround(mode);
  volatile Float result = function();
  std::fesetround(FE_TONEAREST);
  return result;
}

bool Same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

// All finite numbers of a format that are not negative, by their bits.
std::vector<double> NumbersOf(const FloatFormat& format) {
  std::vector<double> numbers;
  for (uint32_t bits = 0; bits < format.infinity; ++bits)
    numbers.push_back(format.fraction == kHalf.fraction ? FromHalf(bits)
                                                        : FromBfloat(bits));
  return numbers;
}

// The nearest of them, to even: found by search, not by arithmetic on bits.
uint32_t Nearest(const std::vector<double>& numbers, long double value) {
  const long double size = std::fabs(value);
  const auto above = std::lower_bound(
      numbers.begin(), numbers.end(), size,
      [](double number, long double wanted) { return number < wanted; });
  auto bits = static_cast<uint32_t>(above - numbers.begin());
  if (bits < numbers.size() && bits > 0 && *above != size) {
    const long double up = *above - size, down = size - *(above - 1);
    if (down < up || (down == up && (bits & 1) != 0))
      --bits;
  }
  return bits | (std::signbit(value) ? 0x8000 : 0);
}

class FloatInterpreterTest : public InterpreterTest {
 protected:
  FloatInterpreterTest() : InterpreterTest("floats") {}

  // Random values over a range of exponents.
  template <typename Float>
  std::vector<Float> Numbers(int least_exponent, int most_exponent) {
    std::vector<Float> values(kElements);
    for (Float& value : values)
      value = std::ldexp(
          static_cast<Float>(Signed(1 << 24)) / (1 << 24),
          least_exponent +
              static_cast<int>(random_() %
                               static_cast<unsigned>(most_exponent - least_exponent)));
    return values;
  }
  template <typename Float>
  std::vector<Float> AllNumbers(int least_exponent, int most_exponent) {
    using Limits = std::numeric_limits<Float>;
    std::vector<Float> values = Numbers<Float>(least_exponent, most_exponent);
    const std::vector<Float> special = {0,
                                        -Float{0},
                                        1,
                                        -1,
                                        Float(0.5),
                                        Float(2.5),
                                        Limits::infinity(),
                                        -Limits::infinity(),
                                        Limits::quiet_NaN(),
                                        Limits::denorm_min(),
                                        -Limits::min() / 2,
                                        Limits::max(),
                                        Limits::min()};
    for (const Float value : special)
      values[random_() % values.size()] = value;
    return values;
  }
  int Signed(int most) {
    return static_cast<int>(random_() % static_cast<unsigned>(2 * most)) - most;
  }

  template <typename T>
  std::vector<T> Part(uint64_t address, size_t part) const {
    const std::vector<T> all = buffers_.Get<T>(address);
    const auto first = all.begin() + static_cast<ptrdiff_t>(part * kElements);
    return {first, first + kElements};
  }

  void CheckHalves(const char* kernel, const FloatFormat& format);
};

TEST_P(FloatInterpreterTest, RoundsSinglePrecisionAsAsked) {
  for (const auto& [least, most] : {std::pair{-20, 20}, {-149, 127}, {-80, -40}}) {
    const auto a = AllNumbers<float>(least, most), b = AllNumbers<float>(least, most);
    const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                   out = Output<float>(20 * kElements);
    Check("single_arithmetic", Parameters(in_a, in_b, out, kElements), 1, 128,
          {in_a, in_b});
    for (size_t i = 0; i < a.size(); ++i) {
      volatile float x = a[i], y = b[i];
      const std::vector<std::function<float()>> expected = {
          [&] { return In<float>(FE_DOWNWARD, [&] { return x + y; }); },
          [&] { return In<float>(FE_UPWARD, [&] { return x + y; }); },
          [&] { return In<float>(FE_TOWARDZERO, [&] { return x + y; }); },
          [&] { return In<float>(FE_DOWNWARD, [&] { return x * y; }); },
          [&] { return In<float>(FE_UPWARD, [&] { return x * y; }); },
          [&] { return In<float>(FE_TOWARDZERO, [&] { return x * y; }); },
          [&] { return In<float>(FE_DOWNWARD, [&] { return std::fma(x, y, x); }); },
          [&] { return In<float>(FE_UPWARD, [&] { return std::fma(x, y, x); }); },
          [&] { return In<float>(FE_TOWARDZERO, [&] { return std::fma(x, y, x); }); },
          [&] {
            const float p = x * y;
            return p >= 1 ? 1 : p > 0 ? p : 0.0f;
          },
          [&] { return std::fmin(x, y); },
          [&] { return std::fmax(x, y); },
          [&] { return x / y; },
          [&] { return std::sqrt(std::fabs(x)); },
          [&] { return std::nearbyint(x); },
          [&] { return std::floor(x); },
          [&] { return std::ceil(y); },
          [&] { return std::trunc(y); },
          [&] { return std::fma(x, y, -y); },
          [&] { return x > y ? 1.0f : 0.0f; },
      };
      for (size_t k = 0; k < expected.size(); ++k) {
        const float got = Part<float>(out, k)[i], want = expected[k]();
        // Of zeros of either sign fmin and fmax may return any on a host.
        const bool extreme = (k == 10 || k == 11) && x == 0 && y == 0;
        EXPECT_TRUE(Same(got, want) || (extreme && got == 0))
            << k << ": " << std::hexfloat << x << " " << y << ": " << got << " for "
            << want;
      }
    }
  }
}

TEST_P(FloatInterpreterTest, ApproximatesFunctions) {
  auto a = Numbers<float>(-10, 5);
  const uint64_t in = buffers_.Add(a), out = Output<float>(11 * kElements);
  Check("single_functions", Parameters(in, out, kElements), 1, 128, {in});
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], size = std::fabs(x);
    const double expected[] = {
        std::exp(x),  std::log(size),      std::sin(x),          std::cos(x),
        std::tanh(x), 1 / std::sqrt(size), std::pow(size, 1.25), std::erf(x),
        std::sin(x),  std::cos(x),         std::exp2(x)};
    for (size_t k = 0; k < std::size(expected); ++k) {
      const double got = Part<float>(out, k)[i];
      const double allowed = std::max(std::fabs(expected[k]) * 1e-5, 1e-5);
      EXPECT_NEAR(got, expected[k], allowed) << k << ": " << x;
    }
  }
}

TEST_P(FloatInterpreterTest, ComputesWithDoubles) {
  for (const auto& [least, most] : {std::pair{-20, 20}, {-1074, 1023}}) {
    const auto a = AllNumbers<double>(least, most), b = AllNumbers<double>(least, most);
    const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                   out = Output<double>(14 * kElements);
    Check("double_arithmetic", Parameters(in_a, in_b, out, kElements), 1, 128,
          {in_a, in_b});
    for (size_t i = 0; i < a.size(); ++i) {
      volatile double x = a[i], y = b[i];
      const std::vector<std::function<double()>> expected = {
          [&] { return x + y; },
          [&] { return x * y; },
          [&] { return std::fma(x, y, x); },
          [&] { return x / y; },
          [&] { return std::sqrt(std::fabs(x)); },
          [&] { return std::fmin(x, y); },
          [&] { return std::fmax(x, y); },
          [&] { return x < y ? x : -y; },
          [&] { return std::floor(x); },
          [&] { return In<double>(FE_UPWARD, [&] { return x * y; }); },
          [&] { return In<double>(FE_DOWNWARD, [&] { return std::fma(x, y, y); }); },
      };
      for (size_t k = 0; k < expected.size(); ++k) {
        const double got = Part<double>(out, k)[i], want = expected[k]();
        const bool extreme = (k == 5 || k == 6) && x == 0 && y == 0;
        EXPECT_TRUE(Same(got, want) || (extreme && got == 0))
            << k << ": " << std::hexfloat << x << " " << y << ": " << got << " for "
            << want;
      }
      const double functions[] = {std::exp(x), std::log(std::fabs(x)),
                                  x != y ? 1.0 : 0.0};
      for (size_t k = 0; k < std::size(functions); ++k) {
        const double got = Part<double>(out, 11 + k)[i], want = functions[k];
        EXPECT_TRUE(Same(got, want) || std::fabs(got - want) <= 1e-14 * std::fabs(want))
            << k << ": " << std::hexfloat << x << ": " << got << " for " << want;
      }
    }
  }
}

TEST_P(FloatInterpreterTest, ReducesArgumentsOfAnySize) {
  auto a = Numbers<double>(-30, 120);
  a[0] = 0;
  a[1] = 0x1.921fb54442d18p+1;  // pi
  a[2] = 0x1p1000;
  a[3] = 105414357.85;  // just beyond the fast path of floats
  const uint64_t in = buffers_.Add(a), out = Output<double>(6 * kElements);
  Check("double_functions", Parameters(in, out, kElements), 1, 128, {in});
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const auto single = static_cast<float>(x);
    const double expected[] = {std::sin(x),
                               std::cos(x),
                               std::tan(x),
                               std::sin(double{single}),
                               std::cos(double{single}),
                               std::lgamma(std::fabs(x))};
    for (size_t k = 0; k < std::size(expected); ++k) {
      const double got = Part<double>(out, k)[i], want = expected[k];
      // CUDA C++ Programming Guide, "Mathematical Functions": 2 and 4 ulp.
      const double allowed = k == 3 || k == 4 ? 3e-7 : 2e-15 * (1 + std::fabs(want));
      EXPECT_TRUE(Same(got, want) || std::fabs(got - want) <= allowed)
          << k << ": " << std::hexfloat << x << ": " << got << " for " << want;
    }
  }
}

TEST_P(FloatInterpreterTest, Converts) {
  auto a = AllNumbers<double>(-5, 70);
  auto b = AllNumbers<float>(-5, 70);
  auto c = Random<int64_t>(kElements);
  for (size_t i = 0; i < c.size(); ++i)
    c[i] >>= i % 60;
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b), in_c = buffers_.Add(c),
                 whole = Output<int64_t>(7 * kElements),
                 real = Output<double>(8 * kElements);
  Check("conversions", Parameters(in_a, in_b, in_c, whole, real, kElements), 1, 128,
        {in_a, in_b, in_c});
  // PTX ISA, cvt: what does not fit becomes the nearest number, what is no number
  // becomes 0 or, with 64 bits, the upper bit.
  const auto clamp = [](double value, double low, double high, int64_t least,
                        int64_t most, int64_t none) {
    return std::isnan(value) ? none
           : value <= low    ? least
           : value >= high   ? most
                             : static_cast<int64_t>(value);
  };
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int kLeastInt = std::numeric_limits<int>::min(),
                kMostInt = std::numeric_limits<int>::max();
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    const auto to_int = [&](double value, int64_t none) {
      return clamp(value, kLeastInt, kMostInt, kLeastInt, kMostInt, none);
    };
    const uint64_t plain = std::isnan(x) ? uint64_t{1} << 63
                           : std::fabs(x) >= 0x1p64
                               ? ~uint64_t{0}
                               : static_cast<uint64_t>(std::fabs(x));
    const int64_t expected[] = {
        clamp(x, -0x1p63, 0x1p63, kLeast, ~kLeast, kLeast),
        to_int(x, kLeastInt),
        static_cast<int64_t>(plain),
        clamp(y, -0x1p63, 0x1p63, kLeast, ~kLeast, kLeast),
        to_int(std::nearbyint(y), 0),
        to_int(std::floor(y), 0),
        clamp(std::fabs(y), 0, 0x1p32 - 1, 0, 0xffffffff, 0),
    };
    for (size_t k = 0; k < std::size(expected); ++k)
      EXPECT_EQ(Part<int64_t>(whole, k)[i], expected[k])
          << k << ": " << (k < 3 ? x : y);
    const double numbers[] = {static_cast<float>(x),
                              y,
                              static_cast<double>(c[i]),
                              static_cast<float>(c[i]),
                              static_cast<double>(static_cast<int>(c[i])),
                              static_cast<double>(static_cast<uint64_t>(c[i])),
                              static_cast<float>(static_cast<int8_t>(c[i])),
                              static_cast<float>(static_cast<uint16_t>(c[i]))};
    for (size_t k = 0; k < std::size(numbers); ++k)
      EXPECT_TRUE(Same(Part<double>(real, k)[i], numbers[k])) << k << ": " << c[i];
  }
}

void FloatInterpreterTest::CheckHalves(const char* kernel, const FloatFormat& format) {
  const std::vector<double> numbers = NumbersOf(format);
  const bool is_half = format.fraction == kHalf.fraction;
  const auto number = [is_half](uint16_t bits) {
    return is_half ? FromHalf(bits) : FromBfloat(bits);
  };
  // Sizes at which sums of products are exact in 64 bits.
  std::vector<uint16_t> a(2 * kElements), b(2 * kElements);
  for (auto* values : {&a, &b})
    for (uint16_t& value : *values)
      value = static_cast<uint16_t>(Nearest(
          numbers, std::ldexp(Signed(1 << 20) / 1048576.0, Signed(is_half ? 12 : 9))));
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b),
                 out = Output<uint16_t>(18 * kElements);
  Check(kernel, Parameters(in_a, in_b, out, kElements), 1, 128, {in_a, in_b});
  const auto got = buffers_.Get<uint16_t>(out);
  for (size_t i = 0; i < a.size(); ++i) {
    const long double x = number(a[i]), y = number(b[i]);
    const auto nearest = [&](long double value) { return Nearest(numbers, value); };
    const long double expected[] = {x + y,
                                    x * y,
                                    x * y + x,
                                    std::min(x, y),
                                    std::max(x, y),
                                    x > y ? 1.0L : 0.0L,
                                    x != y ? 1.0L : 0.0L,
                                    x - y};
    for (size_t k = 0; k < std::size(expected); ++k) {
      const uint32_t want = nearest(expected[k]);
      const uint16_t have = got[2 * kElements * k + i];
      EXPECT_TRUE(have == want || ((have | want) == 0x8000 && k >= 3))
          << k << ": " << double(x) << " " << double(y) << " " << number(have);
    }
    const uint16_t have = got[16 * kElements + i];
    const size_t pair = i / 2 * 2;
    const double x0 = number(a[pair]), y0 = number(b[pair]), y1 = number(b[pair + 1]);
    const auto single = static_cast<float>(x0 * y1);
    EXPECT_EQ(have, nearest(i % 2 == 0 ? single
                            : x0 < y0  ? number(a[pair + 1])
                                       : std::fabs(y1)));
  }
}

TEST_P(FloatInterpreterTest, ComputesWithHalves) {
  CheckHalves("halves", kHalf);
}

TEST_P(FloatInterpreterTest, ComputesWithBfloats) {
  CheckHalves("bfloats", kBfloat);
}

TEST_P(FloatInterpreterTest, RoundsIntegersToHalvesOnce) {
  auto a = Random<int64_t>(kElements);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] >>= i % 63;
  // Half an ulp of a bfloat16 and of a half above an even number, and a little more.
  a[0] = (int64_t{0x101} << 50) + 1;
  a[1] = int64_t{0x101} << 50;
  a[2] = 0x1001000 + 1;
  const uint64_t in = buffers_.Add(a), halves = Output<uint16_t>(3 * kElements),
                 bfloats = Output<uint16_t>(3 * kElements);
  Check("small_from_integers", Parameters(in, halves, bfloats, kElements), 1, 128,
        {in});
  const std::vector<double> half_numbers = NumbersOf(kHalf),
                            bfloat_numbers = NumbersOf(kBfloat);
  for (size_t i = 0; i < a.size(); ++i) {
    const long double expected[] = {
        static_cast<long double>(a[i]),
        static_cast<long double>(static_cast<int>(a[i])),
        static_cast<long double>(static_cast<uint16_t>(a[i]))};
    for (size_t k = 0; k < std::size(expected); ++k) {
      // Beyond the largest half lies infinity, from halfway to the next number on.
      const uint32_t half = std::fabs(expected[k]) < 65520
                                ? Nearest(half_numbers, expected[k])
                                : kHalf.infinity | (expected[k] < 0 ? 0x8000 : 0);
      EXPECT_EQ(Part<uint16_t>(halves, k)[i], half) << k << ": " << a[i];
      EXPECT_EQ(Part<uint16_t>(bfloats, k)[i], Nearest(bfloat_numbers, expected[k]))
          << k << ": " << a[i];
    }
  }
}

TEST_P(FloatInterpreterTest, SumsHalvesInMemory) {
  std::vector<uint16_t> a(kElements);
  const std::vector<double> numbers = NumbersOf(kHalf);
  std::array<double, 3> sums{};
  for (size_t i = 0; i < a.size(); ++i) {
    const double value = Signed(4);  // all sums are exact, of bfloat16, too
    a[i] = static_cast<uint16_t>(Nearest(numbers, value));
    sums[i % 3] += value;
  }
  const uint64_t in = buffers_.Add(a), out = Output<uint16_t>(4),
                 out_bfloats = Output<uint16_t>(4);
  Check("half_sums", Parameters(in, out, out_bfloats, kElements), 1, 128, {in});
  for (size_t k = 0; k < sums.size(); ++k) {
    EXPECT_EQ(FromHalf(buffers_.Get<uint16_t>(out)[k]), sums[k]);
    EXPECT_EQ(FromBfloat(buffers_.Get<uint16_t>(out_bfloats)[k]), sums[k]);
  }
}

TEST_P(FloatInterpreterTest, MultipliesHalvesInMemory) {
  const std::vector<double> numbers = NumbersOf(kHalf);
  std::vector<uint16_t> a(kElements);
  std::array<double, 2> products = {3, 5};  // exact
  for (size_t i = 0; i < a.size(); ++i) {
    const double value = (i / 2) % 2 == 0 ? -2 : 0.5;
    a[i] = static_cast<uint16_t>(Nearest(numbers, value));
    products[i % 2] *= value;
  }
  const uint64_t in = buffers_.Add(a),
                 out = buffers_.Add(std::vector<uint32_t>{Nearest(numbers, 3) |
                                                          Nearest(numbers, 5) << 16});
  Check("half_products", Parameters(in, out, kElements), 1, 128, {in});
  for (size_t k = 0; k < products.size(); ++k)
    EXPECT_EQ(FromHalf(buffers_.Get<uint16_t>(out)[k]), products[k]);
}

float Odd(float x, int n) {
  if (x < 0)
    return -Odd(-x, n);
  float y = x * x;
  if (x > 2)
    for (int i = 0; i < n; ++i)
      y = y / (x + static_cast<float>(i));
  return x < 5 ? y + std::sqrt(x) : y / 3;
}

TEST_P(FloatInterpreterTest, LanesOfOneCallMeet) {
  std::vector<float> a(kElements);
  for (float& value : a)
    value = static_cast<float>(Signed(800)) / 100;
  const uint64_t in = buffers_.Add(a), out = Output<float>(kElements);
  Check("recursive_floats", Parameters(in, out, kElements), 1, 128, {in});
  for (size_t i = 0; i < a.size(); ++i) {
    float want = Odd(a[i], static_cast<int>(i % 5));
    if (a[i] > -3)
      want += Odd(a[i] - 1, 3);
    EXPECT_NEAR(Part<float>(out, 0)[i], want, std::fabs(want) * 1e-6) << a[i];
  }
}

TEST_P(FloatInterpreterTest, SumsInMemory) {
  std::vector<float> a(kElements);
  std::vector<double> b(kElements);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(Signed(100));
    b[i] = Signed(1000) / 8.0;
  }
  const uint64_t in_a = buffers_.Add(a), in_b = buffers_.Add(b), sum = Output<float>(1),
                 double_sum = Output<double>(1);
  Check("float_sums", Parameters(in_a, in_b, sum, double_sum, kElements), 1, 128,
        {in_a, in_b});
  float total = 0;
  double double_total = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    total += a[i];
    double_total += b[i];
  }
  EXPECT_EQ(buffers_.Get<float>(sum)[0], total);
  EXPECT_EQ(buffers_.Get<double>(double_sum)[0], double_total);
}

// All halves, numbers around each float of 8 bits, and others, against the host's half
// of CUDA's header.
TEST_P(FloatInterpreterTest, ConvertsToAndFromBytes) {
  constexpr uint32_t kHalves = 0x10000, kAtOnce = 0x2000;
  constexpr size_t kPairs = kAtOnce / 2;
  const std::function<float(uint32_t)> kinds[] = {
      [](uint32_t bits) { return static_cast<float>(FromHalf(bits)); },
      [](uint32_t bits) {
        return std::nextafter(static_cast<float>(FromHalf(bits)), INFINITY);
      },
      [](uint32_t bits) { return std::bit_cast<float>(bits << 16 | 0x1234); },
      [](uint32_t bits) { return std::bit_cast<float>(bits * 0x9e3779b9); }};
  for (uint32_t first = 0; first < kHalves && !HasFailure(); first += kAtOnce)
    for (const auto& number_of : kinds) {
      std::vector<float> numbers;
      std::vector<uint16_t> halves;
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        numbers.push_back(number_of(first + i));
        halves.push_back(static_cast<uint16_t>((first + i) * 7919));
      }
      const uint64_t in = buffers_.Add(numbers), in_halves = buffers_.Add(halves),
                     out = Output<uint32_t>(3 * kPairs);
      const Parameters parameters(in, in_halves, out, static_cast<int>(kPairs));
      ASSERT_EQ(Run("bytes_from_floats", parameters, kPairs / 256, 256, &buffers_).kind,
                Outcome::Kind::kDone);
      const auto got = buffers_.Get<uint32_t>(out);
      const auto expect = [&](uint32_t byte, float number, bool is_e4m3) {
        const uint32_t want = __nv_cvt_float_to_fp8(number, __NV_SATFINITE,
                                                    is_e4m3 ? __NV_E4M3 : __NV_E5M2);
        EXPECT_EQ(byte, want) << number << (is_e4m3 ? " to E4M3" : " to E5M2");
      };
      for (size_t i = 0; i < kPairs; ++i)
        for (size_t k = 0; k < 4; ++k) {
          // A pair's first number is the lower byte.
          const float number = numbers[(2 * i + k) % kAtOnce];
          expect(got[i] >> 8 * k & 0xff, number, true);
          expect(got[kPairs + i] >> 8 * k & 0xff, number, false);
          expect(got[2 * kPairs + i] >> 8 * k & 0xff,
                 static_cast<float>(FromHalf(halves[2 * i + k % 2])), k < 2);
        }
    }
  const uint64_t few = buffers_.Add(std::vector<float>{1, -3, 0.7f, 900}),
                 few_halves = buffers_.Add(std::vector<uint16_t>{1, 0x3c01, 0xc555, 7});
  Check("bytes_from_floats", Parameters(few, few_halves, Output<uint32_t>(6), 2), 1, 32,
        {few, few_halves});
  std::vector<uint32_t> bytes;
  for (uint32_t i = 0; i < 256; ++i)
    bytes.push_back(i | (255 - i) << 8 | (i * 5 & 0xff) << 16 | (i ^ 0x55) << 24);
  const uint64_t in_bytes = buffers_.Add(bytes), back = Output<uint32_t>(4 * 256);
  Check("halves_from_bytes", Parameters(in_bytes, back, 256), 1, 256, {in_bytes});
  const auto words = buffers_.Get<uint32_t>(back);
  for (size_t i = 0; i < 4 * 256; ++i)
    for (unsigned k = 0; k < 2; ++k) {
      const uint32_t byte = bytes[i % 256] >> (i / 256 % 2 * 16 + 8 * k) & 0xff;
      const __half_raw want = __nv_cvt_fp8_to_halfraw(
          static_cast<__nv_fp8_storage_t>(byte), i < 512 ? __NV_E4M3 : __NV_E5M2);
      EXPECT_EQ(words[i] >> 16 * k & 0xffff, want.x) << byte << " of " << i / 256;
    }
}

TEST_P(FloatInterpreterTest, ComputesAsTheGpuWhateverTheProgramChose) {
  // 2^-140 + 2^-141, to nearest.
  const uint64_t in_a = buffers_.Add(std::vector<float>{0x1p-140f}),
                 in_b = buffers_.Add(std::vector<float>{0x1p-141f}),
                 out = Output<float>(20);
  constexpr unsigned kFlushes = 0x8040;  // of subnormal numbers: results, operands
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | kFlushes);
  Run("single_arithmetic", Parameters(in_a, in_b, out, 1), 1, 32, &buffers_);
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(after & kFlushes, kFlushes);
  EXPECT_EQ(buffers_.Get<float>(out)[0], 0x1.8p-140f);
}

TEST(FloatFormat, RoundsToOddBeforeItRounds) {
  // Half an ulp of a half, and a little more: one rounding goes up.
  const double sum = SumToOdd(1 + 0x1p-11, 0x1p-60);
  EXPECT_EQ(RoundTo(sum, kHalf, Rounding::kNearest), 0x3c01u);
  EXPECT_EQ(RoundTo(1 + 0x1p-11, kHalf, Rounding::kNearest), 0x3c00u);
  EXPECT_EQ(RoundTo(65520, kHalf, Rounding::kNearest), kHalf.infinity);
  EXPECT_EQ(RoundTo(65520, kHalf, Rounding::kToZero), kHalf.infinity - 1);
  EXPECT_EQ(RoundTo(-0x1p-30, kHalf, Rounding::kDown), 0x8001u);
  EXPECT_EQ(RoundTo(-0x1p-30, kHalf, Rounding::kUp), 0x8000u);
}

INSTANTIATE_TEST_SUITE_P(Architectures, FloatInterpreterTest, testing::Values(80, 90));

}  // namespace
}  // namespace vrank::gpu
