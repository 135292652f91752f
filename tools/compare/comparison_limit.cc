#include "tools/compare/comparison_limit.h"

#include <cmath>
#include <vector>

#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/pattern.h"

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
  static const Pattern kForm = *Pattern::Compile(
      R"(\s*([a-z_]+)\s*>\s*(\+?)\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%]*)\s*)");
  Pattern::Groups groups;
  if (!kForm.Matches(text, 4, &groups))
    return wrong("it is no METRIC > [+]AMOUNT UNIT");
  Limit limit{.text = text,
              .metric = std::string(*groups[0]),
              .is_change = !groups[1]->empty()};
  if (!absl::SimpleAtod(std::string(*groups[2]), &limit.amount) ||
      !std::isfinite(limit.amount))
    return wrong("the amount is too large");
  const std::string unit(*groups[3]);
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

absl::StatusOr<const Finding*> Broken(const Limit& limit,
                                      const Comparison& comparison) {
  std::vector<std::string> known;
  for (const Finding& finding : comparison.findings) {
    known.push_back(finding.base.name);
    if (finding.base.name != limit.metric)
      continue;
    const double amount =
        limit.is_percent ? static_cast<double>(finding.base.value) * limit.amount / 100
                         : limit.amount;
    const int64_t value = limit.is_change ? finding.change() : finding.updated.value;
    return static_cast<double>(value) > amount ? &finding : nullptr;
  }
  if (limit.metric == "peak_memory")
    return absl::InvalidArgumentError(fmt::format(
        "--fail-if '{}': peak memory is not known of every rank in these results; "
        "record with torch.profiler's profile_memory=True",
        limit.text));
  return absl::InvalidArgumentError(fmt::format(
      "--fail-if '{}': there is no metric '{}' in these results; there are {}",
      limit.text, limit.metric, fmt::join(known, ", ")));
}

}  // namespace vrank::tools
