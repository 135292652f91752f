// A codec per element type (how to read and write one, and the type to compute in), and
// the operations once, for all of them.

#include "emulator/payload/element.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/guest/minifloat.h"

namespace vrank::emulator {
namespace {

using graph::ElementType;
using graph::Reduction;

template <typename T>
struct Native {
  using Value = T;
  static constexpr size_t kBytes = sizeof(T);
  static T Load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
  }
  static void Store(T value, std::byte* at) { std::memcpy(at, &value, sizeof(T)); }
};

template <typename Format, typename Bits>
struct Narrow {
  using Value = float;
  static constexpr size_t kBytes = sizeof(Bits);
  static float Load(const std::byte* at) {
    return Format::Decode(Native<Bits>::Load(at));
  }
  static void Store(float value, std::byte* at) {
    Native<Bits>::Store(static_cast<Bits>(Format::Encode(value)), at);
  }
};

// Calls visit(codec) for the type. An unknown type has no codec: nothing happens.
template <typename Visit>
void WithCodec(ElementType type, Visit visit) {
  switch (type) {
    case ElementType::kInt8:
      return visit(Native<int8_t>{});
    case ElementType::kUint8:
      return visit(Native<uint8_t>{});
    case ElementType::kInt32:
      return visit(Native<int32_t>{});
    case ElementType::kUint32:
      return visit(Native<uint32_t>{});
    case ElementType::kInt64:
      return visit(Native<int64_t>{});
    case ElementType::kUint64:
      return visit(Native<uint64_t>{});
    case ElementType::kFloat16:
      return visit(Narrow<Float16, uint16_t>{});
    case ElementType::kFloat32:
    case ElementType::kTfloat32:
      return visit(Native<float>{});
    case ElementType::kFloat64:
      return visit(Native<double>{});
    case ElementType::kBfloat16:
      return visit(Narrow<Bfloat16, uint16_t>{});
    case ElementType::kFloat8E4M3:
      return visit(Narrow<Float8E4M3, uint8_t>{});
    case ElementType::kFloat8E5M2:
      return visit(Narrow<Float8E5M2, uint8_t>{});
  }
}

// Sums and products of integers wrap around: computed without sign, in at least 32
// bits.
template <typename T, typename Combine>
T Wrapping(T a, T b, Combine combine) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    return static_cast<T>(combine(static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  } else {
    return combine(a, b);
  }
}

template <typename T>
T Combine(Reduction reduction, T a, T b) {
  switch (reduction) {
    case Reduction::kProd:
      return Wrapping(a, b, [](auto x, auto y) { return x * y; });
    // Of a number and a NaN the number, as fmaxf has it.
    case Reduction::kMax:
      return a > b || b != b ? a : b;
    case Reduction::kMin:
      return a < b || b != b ? a : b;
    case Reduction::kSum:
    case Reduction::kAvg:
    case Reduction::kPreMulSum:
      break;
  }
  return Wrapping(a, b, [](auto x, auto y) { return x + y; });
}

// values[i] = map(values[i]).
template <typename Map>
void ForEach(ElementType type, std::span<std::byte> values, Map map) {
  WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    for (size_t at = 0; at + Codec::kBytes <= values.size(); at += Codec::kBytes)
      Codec::Store(map(Codec::Load(&values[at])), &values[at]);
  });
}

}  // namespace

void Accumulate(ElementType type, Reduction reduction, std::span<std::byte> accumulator,
                std::span<const std::byte> next) {
  WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    for (size_t at = 0; at + Codec::kBytes <= accumulator.size(); at += Codec::kBytes) {
      std::byte* target = &accumulator[at];
      Codec::Store(Combine(reduction, Codec::Load(target), Codec::Load(&next[at])),
                   target);
    }
  });
}

void AverageBefore(ElementType type, uint64_t members, std::span<std::byte> values) {
  WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    using Value = typename Codec::Value;
    if constexpr (std::is_floating_point_v<Value>) {
      std::byte rounded[Codec::kBytes];
      Codec::Store(static_cast<Value>(1.0 / static_cast<double>(members)), rounded);
      const Value factor = Codec::Load(rounded);
      for (size_t at = 0; at + Codec::kBytes <= values.size(); at += Codec::kBytes)
        Codec::Store(Codec::Load(&values[at]) * factor, &values[at]);
    }
  });
}

void AverageAfter(ElementType type, uint64_t members, std::span<std::byte> values) {
  ForEach(type, values, [members]<typename T>(T value) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
      return static_cast<T>(static_cast<int64_t>(value) /
                            static_cast<int64_t>(members));
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(value / members);
    else
      return value;
  });
}

void Scale(ElementType type, uint64_t numerator, uint64_t denominator,
           std::span<std::byte> values) {
  ForEach(type, values, [=]<typename T>(T value) {
    // Divided first, so that only what the sum itself would have wrapped around wraps.
    if constexpr (std::is_integral_v<T>) {
      using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
      const Wide whole = static_cast<Wide>(value) / static_cast<Wide>(denominator);
      const Wide rest = static_cast<Wide>(value) % static_cast<Wide>(denominator);
      return static_cast<T>(static_cast<uint64_t>(whole) * numerator +
                            static_cast<uint64_t>(rest * static_cast<Wide>(numerator) /
                                                  static_cast<Wide>(denominator)));
    } else {
      return static_cast<T>(static_cast<double>(value) *
                            static_cast<double>(numerator) /
                            static_cast<double>(denominator));
    }
  });
}

void Raise(ElementType type, uint64_t exponent, std::span<std::byte> values) {
  ForEach(type, values, [=]<typename T>(T value) {
    if constexpr (std::is_integral_v<T>) {
      T power = 1;
      for (uint64_t left = exponent; left != 0; left /= 2) {
        if (left % 2 != 0)
          power = Combine(Reduction::kProd, power, value);
        value = Combine(Reduction::kProd, value, value);
      }
      return power;
    } else {
      return static_cast<T>(
          std::pow(static_cast<double>(value), static_cast<double>(exponent)));
    }
  });
}

double ToDouble(ElementType type, const std::byte* element) {
  double value = 0;
  WithCodec(type, [&](auto codec) {
    value = static_cast<double>(decltype(codec)::Load(element));
  });
  return value;
}

void FromDouble(ElementType type, double value, std::byte* element) {
  WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    Codec::Store(static_cast<typename Codec::Value>(value), element);
  });
}

}  // namespace vrank::emulator
