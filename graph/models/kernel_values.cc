#include "graph/models/kernel_values.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "base/text_proto.h"
#include "graph/models/description_file.h"
#include "graph/models/kernel_values.pb.h"

namespace vrank::graph {
namespace {

// Lowest byte first, as in memory.
template <typename T>
std::string Digits(T value) {
  using Bits = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t,
                         std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  auto bits = static_cast<uint64_t>(std::bit_cast<Bits>(value));
  std::string digits;
  for (size_t i = 0; i < sizeof(T); ++i, bits >>= 8)
    digits += fmt::format("{:02x}", bits & 0xff);
  return digits;
}

// Empty where the value is none of the type.
template <typename T>
std::string IntegerDigits(double value) {
  // The bounds of 64-bit integers round up: less than the upper one fits.
  const double low = static_cast<double>(std::numeric_limits<T>::lowest());
  const double high = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!(value >= low && value < high) || value != std::trunc(value))
    return "";
  return Digits(static_cast<T>(value));
}

// Rounded to the nearest, ties to even.
uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::string ElementDigits(KernelValues::Type type, double value) {
  switch (type) {
    case KernelValues::BOOL:
      return value == 0 || value == 1 ? Digits(static_cast<uint8_t>(value)) : "";
    case KernelValues::INT8:
      return IntegerDigits<int8_t>(value);
    case KernelValues::UINT8:
      return IntegerDigits<uint8_t>(value);
    case KernelValues::INT16:
      return IntegerDigits<int16_t>(value);
    case KernelValues::INT32:
      return IntegerDigits<int32_t>(value);
    case KernelValues::INT64:
      return IntegerDigits<int64_t>(value);
    case KernelValues::FLOAT16:
      return Digits(static_cast<_Float16>(value));
    case KernelValues::BFLOAT16:
      return Digits(ToBfloat16(static_cast<float>(value)));
    case KernelValues::FLOAT32:
      return Digits(static_cast<float>(value));
    case KernelValues::FLOAT64:
      return Digits(value);
    default:
      return "";
  }
}

}  // namespace

absl::StatusOr<std::string> ReadKernelValues(const std::string& path) {
  KernelValues values;
  RETURN_IF_ERROR(ReadTextProto(path, &values, nullptr, Numbers::kAny));
  Problems problems(path);
  std::string lines;
  for (int i = 0; i < values.rule_size(); ++i) {
    const KernelValues::Rule& rule = values.rule(i);
    if (rule.kernel().empty() || rule.kernel().find('\n') != std::string::npos)
      problems.Add(
          fmt::format("rule {}: `kernel` must be a name in one line; * stands "
                      "for any text",
                      i + 1));
    if (rule.type() == KernelValues::UNSPECIFIED) {
      problems.Add(
          fmt::format("rule {}: `type` must be BOOL, INT8, UINT8, INT16, INT32, "
                      "INT64, FLOAT16, BFLOAT16, FLOAT32 or FLOAT64",
                      i + 1));
      continue;
    }
    const std::string digits = ElementDigits(rule.type(), rule.value());
    if (digits.empty())
      problems.Add(fmt::format("rule {}: {} has no value {}", i + 1,
                               KernelValues::Type_Name(rule.type()), rule.value()));
    lines += fmt::format("{} {}\n", digits, rule.kernel());
  }
  // They go to the ranks in a variable of their environment (MAX_ARG_STRLEN).
  constexpr size_t kMostBytes = 100'000;
  if (lines.size() > kMostBytes)
    problems.Add(
        fmt::format("{} bytes of rules; {} are the most", lines.size(), kMostBytes));
  RETURN_IF_ERROR(problems.ToStatus());
  return lines;
}

}  // namespace vrank::graph
