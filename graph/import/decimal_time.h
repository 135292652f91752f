// Microseconds as JSON spells them ("4458676522690.655"), in nanoseconds and without
// the rounding of a double, which has no place for a nanosecond since 1970.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_DECIMAL_TIME_H_
#define VRANK_GRAPH_IMPORT_DECIMAL_TIME_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vrank::graph {

// Nothing for what is no number or beyond a hundred years. Digits past the nanosecond
// are cut off; exponents go through a double.
inline std::optional<int64_t> ParseMicroseconds(std::string_view text) {
  constexpr int64_t kMostMicroseconds = 4'000'000'000'000'000;  // 126 years
  const char* const end = text.data() + text.size();
  const bool negative = !text.empty() && text.front() == '-';
  int64_t whole = 0;
  const auto parsed = std::from_chars(text.data() + (negative ? 1 : 0), end, whole);
  const char* at = parsed.ptr;
  bool plain = parsed.ec == std::errc() && whole >= 0 && (at == end || *at++ == '.');
  int64_t fraction_ns = 0;
  for (int64_t unit = 100; plain && at != end; ++at, unit /= 10) {
    plain = *at >= '0' && *at <= '9';
    fraction_ns += (*at - '0') * unit;
  }
  if (plain) {
    if (whole > kMostMicroseconds)
      return std::nullopt;
    const int64_t ns = whole * 1000 + fraction_ns;
    return negative ? -ns : ns;
  }
  if (text.find_first_of("eEnN") == std::string_view::npos)
    return std::nullopt;
  double value = 0;
  const auto as_double = std::from_chars(text.data(), end, value);
  if (as_double.ec != std::errc() || as_double.ptr != end ||
      !(value > -double{kMostMicroseconds} && value < double{kMostMicroseconds}))
    return std::nullopt;
  return static_cast<int64_t>(value * 1e3);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_DECIMAL_TIME_H_
