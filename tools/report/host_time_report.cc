#include "tools/report/host_time_report.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

std::string Signed(double change) {
  return fmt::format("{:+.2f} %", 100 * change);
}

const char* NameOf(LimitOutcome outcome) {
  switch (outcome) {
    case LimitOutcome::kHolds:
      return "holds";
    case LimitOutcome::kBroken:
      return "fails";
    case LimitOutcome::kCannotTell:
      return "cannot tell";
  }
  return "";
}

}  // namespace

std::string HostTimeComparisonText(const HostTimeComparison& comparison,
                                   const std::vector<JudgedLimit>& limits) {
  Table table;
  table.Add({"", "base", "new", "change", "99 % interval"});
  table.Add({"host_time", FormatTime(comparison.base.host_ns),
             FormatTime(comparison.updated.host_ns), Signed(comparison.change),
             fmt::format("{} to {}", Signed(comparison.low), Signed(comparison.high))});
  table.Add({comparison.by_iteration ? "calls of a run" : "calls",
             FormatCount(comparison.base.calls), FormatCount(comparison.updated.calls),
             "", ""});
  std::string text = fmt::format(
      "{} recordings before the change, {} after it; CPU time {}\n\n{}\n{}",
      comparison.base.recordings, comparison.updated.recordings,
      comparison.by_iteration ? "per iteration, the median of each recording"
                              : "per run of gaps that repeat",
      table.ToString(0), NameOf(comparison.verdict));
  text += comparison.why_not.empty()
              ? fmt::format("; changes below {:.1f} % cannot be seen in these\n",
                            100 * comparison.resolution())
              : fmt::format(": {}\n", comparison.why_not);
  for (const JudgedLimit& judged : limits)
    text += fmt::format(
        "{}: {}\n",
        judged.outcome == LimitOutcome::kBroken ? "FAILS" : NameOf(judged.outcome),
        judged.limit.text);
  return text;
}

std::string HostTimeComparisonJson(const HostTimeComparison& comparison,
                                   const std::vector<JudgedLimit>& limits) {
  using Json = nlohmann::ordered_json;
  const auto side = [](const HostTimeSide& of) {
    return Json{{"recordings", of.recordings},
                {"host_ns", of.host_ns},
                {"calls", of.calls},
                {"iterations", of.iterations}};
  };
  const auto rounded = [](double change) { return std::round(change * 1e6) / 1e6; };
  Json checks = Json::array();
  for (const JudgedLimit& judged : limits)
    checks.push_back(
        Json{{"limit", judged.limit.text}, {"outcome", NameOf(judged.outcome)}});
  Json json{{"schema", "vrank.compare_host_time/1"},
            {"base", side(comparison.base)},
            {"new", side(comparison.updated)},
            {"per", comparison.by_iteration ? "iteration" : "run"},
            {"change", rounded(comparison.change)},
            {"interval", {rounded(comparison.low), rounded(comparison.high)}},
            {"confidence", HostTimeComparison::kConfidence},
            {"resolution", rounded(comparison.resolution())},
            {"verdict", NameOf(comparison.verdict)},
            {"why", nullptr},
            {"limits", checks}};
  if (!comparison.why_not.empty())
    json["why"] = comparison.why_not;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace vrank::tools
