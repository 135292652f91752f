// The grammar of --fail-if: METRIC > [+]AMOUNT[UNIT].

#include <cctype>
#include <regex>
#include <string>

#include <fmt/format.h>

#include "tools/comparison.h"

namespace vrank::tools {
namespace {

struct UnitWord {
  const char* word;
  double factor;
  bool is_time;
};
constexpr UnitWord kUnits[] = {
    {"ns", 1, true},
    {"us", 1e3, true},
    {"ms", 1e6, true},
    {"s", 1e9, true},
    {"B", 1, false},
    {"KiB", 1024.0, false},
    {"MiB", 1024.0 * 1024, false},
    {"GiB", 1024.0 * 1024 * 1024, false},
};

}  // namespace

absl::StatusOr<Limit> ParseLimit(const std::string& text) {
  const auto wrong = [&](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format(
        "--fail-if '{}': {}; write 'iteration_time > +2%', 'iteration_time > +5ms' or "
        "'peak_memory > 75GiB'",
        text, why));
  };
  static const std::regex kForm(
      R"(\s*([a-z_]+)\s*>\s*(\+?)\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%]*)\s*)");
  std::smatch match;
  if (!std::regex_match(text, match, kForm))
    return wrong("it is no METRIC > [+]AMOUNT UNIT");
  Limit limit{.text = text, .metric = match[1], .is_change = match[2].length() > 0};
  limit.amount = std::stod(match[3]);
  const std::string unit = match[4];
  if (unit == "%") {
    if (!limit.is_change)
      return wrong("a percentage is of a change: put a + before it");
    limit.is_percent = true;
    return limit;
  }
  const bool is_time = limit.metric != "peak_memory";
  for (const UnitWord& known : kUnits) {
    if (unit != known.word)
      continue;
    if (known.is_time != is_time)
      return wrong(fmt::format("{} is not in {}", limit.metric, unit));
    limit.amount *= known.factor;
    return limit;
  }
  return wrong(unit.empty() ? "the amount has no unit"
                            : fmt::format("'{}' is no unit", unit));
}

}  // namespace vrank::tools
