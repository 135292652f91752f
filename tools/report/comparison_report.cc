#include "tools/report/comparison_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tools/report/peak_contents.h"
#include "tools/terminal/kernel_label.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

constexpr size_t kCausesShown = 10;
constexpr size_t kWorkShown = 8, kHostWorkShown = 4, kKernelsShown = 2;
// Changes that are a smaller share of the iteration are left out: of the GPU's work and
// communication, and of the host's. Of the former, those are shown all the same that
// are as large a share of what the iteration changed by.
constexpr double kLeastWork = 0.002, kLeastHostWork = 0.01, kLeastOfChange = 0.1;

std::string Amount(Unit unit, int64_t value) {
  return unit == Unit::kTime ? FormatTime(value)
                             : FormatBytes(static_cast<double>(value));
}

std::string Change(Unit unit, int64_t value) {
  if (value == 0)
    return "0";
  return fmt::format("{}{}", value < 0 ? '-' : '+', Amount(unit, std::abs(value)));
}

std::string Percent(const Finding& finding) {
  if (finding.change() == 0)
    return "0 %";
  return fmt::format("{:+.2f} %", 100 * finding.relative_change());
}

std::string Verdict(const std::vector<CheckedLimit>& limits) {
  if (limits.empty())
    return "";
  return Passed(limits) ? "passed" : "failed";
}

std::string Because(const CheckedLimit& checked) {
  const Finding& finding = *checked.broken;
  return fmt::format("{} -> {} ({}, {}), {}",
                     Amount(finding.base.unit, finding.base.value),
                     Amount(finding.base.unit, finding.updated.value),
                     Change(finding.base.unit, finding.change()), Percent(finding),
                     finding.confidence);
}

std::vector<std::string> CauseRow(const Cause& cause) {
  auto listed = [](const std::optional<int64_t>& ns) {
    return ns ? FormatTime(*ns) : "less";
  };
  return {Shortened(cause.name), listed(cause.base_ns), listed(cause.new_ns),
          cause.base_ns && cause.new_ns ? Change(Unit::kTime, cause.change()) : "?"};
}

// "all_reduce  +48 calls  +4.395 ms"
std::vector<std::string> WorkRow(const WorkChange& change) {
  std::string calls = fmt::format("{:+.1f}", change.calls);
  if (calls.ends_with(".0"))
    calls.resize(calls.size() - 2);
  if (calls == "+0" || calls == "-0")
    calls = "";
  return {Shortened(change.name), change.kind, calls,
          Change(Unit::kTime, std::llround(change.time_ns))};
}

std::string WorkTitle(const Comparison& comparison) {
  return comparison.work.per_iteration ? "what a rank does, per iteration"
                                       : "what a rank does, in the whole run";
}

// Work and communication first, then the host, which may run ahead of both.
std::vector<WorkChange> ShownWork(const Comparison& comparison) {
  const Finding& time = comparison.findings.front();
  const auto iteration = static_cast<double>(time.base.value);
  const auto iterations = static_cast<double>(
      comparison.work.per_iteration ? 1 : comparison.base.totals.iterations);
  const double least_host = kLeastHostWork * iteration;
  double least = kLeastWork * iteration;
  if (time.change() != 0)
    least =
        std::min(least, kLeastOfChange * std::abs(static_cast<double>(time.change())));
  std::vector<WorkChange> shown, host;
  for (const WorkChange& change : comparison.work.rows) {
    const bool is_host = change.kind == "host";
    std::vector<WorkChange>& rows = is_host ? host : shown;
    if (rows.size() < (is_host ? kHostWorkShown : kWorkShown) &&
        std::abs(change.time_ns) >= (is_host ? least_host : least) * iterations)
      rows.push_back(change);
  }
  shown.insert(shown.end(), host.begin(), host.end());
  return shown;
}

struct PartChange {
  AllocatedPart part;
  int64_t base = 0, updated = 0;
  int64_t change() const { return updated - base; }
};

// The largest change first. Empty where one of the two does not state what fills its
// memory.
std::vector<PartChange> AllocatedChanges(const Comparison& comparison) {
  const auto& base = comparison.base.totals.allocated;
  const auto& updated = comparison.updated.totals.allocated;
  if (base.empty() || updated.empty())
    return {};
  std::map<AllocatedPart, PartChange> parts;
  for (const auto& [part, bytes] : base)
    parts[part].base = bytes;
  for (const auto& [part, bytes] : updated)
    parts[part].updated = bytes;
  std::vector<PartChange> changed;
  for (auto& [part, change] : parts) {
    change.part = part;
    if (change.change() != 0)
      changed.push_back(change);
  }
  std::stable_sort(changed.begin(), changed.end(),
                   [](const PartChange& a, const PartChange& b) {
                     return std::abs(a.change()) > std::abs(b.change());
                   });
  return changed;
}

// What was allocated when, and for which kernels, where that is a fair share of what
// changed in all.
std::vector<std::vector<std::string>> AllocatedRows(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows;
  const std::vector<PartChange> changes = AllocatedChanges(comparison);
  if (changes.empty())
    return rows;
  const auto least = static_cast<int64_t>(
      kLeastOfChange * std::abs(static_cast<double>(changes.front().change())));
  const auto add = [&rows](const std::string& what, const PartChange& change) {
    rows.push_back({what, Amount(Unit::kBytes, change.base),
                    Amount(Unit::kBytes, change.updated),
                    Change(Unit::kBytes, change.change())});
  };
  for (const PartChange& whole : changes) {
    if (!whole.part.kernel.empty() || std::abs(whole.change()) < least)
      continue;
    add("  taken " + WhenTaken(whole.part.taken, whole.part.earlier_iteration), whole);
    size_t kernels = 0;
    for (const PartChange& one : changes)
      if (one.part.taken == whole.part.taken &&
          one.part.earlier_iteration == whole.part.earlier_iteration &&
          !one.part.kernel.empty() && std::abs(one.change()) >= least &&
          kernels++ < kKernelsShown)
        add("    for " + KernelLabel(one.part.kernel), one);
  }
  return rows;
}

// Owners of memory at the peak that changed: name, base, new, change.
std::vector<std::vector<std::string>> MemoryRows(const Comparison& comparison) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [owner, base] : comparison.base.totals.peak_bytes) {
    const auto updated = comparison.updated.totals.peak_bytes.find(owner);
    if (updated != comparison.updated.totals.peak_bytes.end() &&
        updated->second != base)
      rows.push_back({owner == "allocated" ? "allocated by PyTorch, at most" : owner,
                      Amount(Unit::kBytes, base), Amount(Unit::kBytes, updated->second),
                      Change(Unit::kBytes, updated->second - base)});
    if (owner == "allocated") {
      const auto parts = AllocatedRows(comparison);
      rows.insert(rows.end(), parts.begin(), parts.end());
    }
  }
  return rows;
}

// "differs: command: --bucket-mb 40 -> --bucket-mb 2"
std::string DifferenceLine(const ProvenanceDifference& difference) {
  const auto shown = [](const std::string& value) {
    return value.empty() ? std::string("none") : value;
  };
  return fmt::format("differs: {}: {} -> {}", difference.what, shown(difference.base),
                     shown(difference.updated));
}

nlohmann::ordered_json Nullable(const std::optional<int64_t>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

std::string EscapeXml(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // XML 1.0 has no other control characters, escaped or not.
        escaped +=
            static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\n' || c == '\r'
                ? c
                : '?';
    }
  }
  return escaped;
}

}  // namespace

bool Passed(const std::vector<CheckedLimit>& limits) {
  return std::all_of(limits.begin(), limits.end(), [](const CheckedLimit& checked) {
    return checked.broken == nullptr;
  });
}

std::string ComparisonText(const Comparison& comparison,
                           const std::vector<CheckedLimit>& limits) {
  std::string text = fmt::format("base {}\nnew  {}\n{}\n", comparison.base.subject,
                                 comparison.updated.subject, comparison.updated.job);
  for (const ProvenanceDifference& one : comparison.differences)
    text += DifferenceLine(one) + "\n";
  text += "\n";
  Table table;
  table.Add({"", "base", "new", "change", "", "confidence"});
  for (const Finding& finding : comparison.findings) {
    if (!finding.is_shown)
      continue;
    const Unit unit = finding.base.unit;
    table.Add({finding.base.name, Amount(unit, finding.base.value),
               Amount(unit, finding.updated.value), Change(unit, finding.change()),
               Percent(finding), finding.confidence});
  }
  text += table.ToString(0);
  if (!comparison.causes.empty()) {
    Table causes;
    causes.Add({"critical path", "base", "new", "change"});
    for (size_t i = 0; i < std::min(kCausesShown, comparison.causes.size()); ++i) {
      const Cause& cause = comparison.causes[i];
      causes.Add(CauseRow(cause));
    }
    text += fmt::format("\n{}", causes.ToString(0));
  }
  if (const auto shown = ShownWork(comparison); !shown.empty()) {
    Table work;
    work.Add({WorkTitle(comparison), "", "calls", "time"});
    for (const WorkChange& change : shown)
      work.Add(WorkRow(change));
    text += fmt::format("\n{}", work.ToString(0));
  }
  if (const auto rows = MemoryRows(comparison); !rows.empty()) {
    Table memory;
    memory.Add({"at the peak", "base", "new", "change"});
    for (const std::vector<std::string>& row : rows)
      memory.Add(row);
    text += fmt::format("\n{}", memory.ToString(0));
  }
  for (const CheckedLimit& checked : limits)
    text += checked.broken == nullptr
                ? fmt::format("\nholds: {}", checked.limit.text)
                : fmt::format("\nFAILS: {}: {}", checked.limit.text, Because(checked));
  return text + (limits.empty() ? "" : "\n");
}

std::string ComparisonJson(const Comparison& comparison,
                           const std::vector<CheckedLimit>& limits) {
  using Json = nlohmann::ordered_json;
  Json findings = Json::array(), causes = Json::array(), checks = Json::array();
  for (const Finding& finding : comparison.findings)
    findings.push_back(
        Json{{"metric", finding.base.name},
             {"unit", finding.base.unit == Unit::kTime ? "ns" : "bytes"},
             {"base", finding.base.value},
             {"new", finding.updated.value},
             {"change", std::round(finding.relative_change() * 1e6) / 1e6},
             {"confidence", finding.confidence}});
  for (const Cause& cause : comparison.causes)
    causes.push_back(Json{{"kind", cause.kind},
                          {"name", cause.name},
                          {"base_ns", Nullable(cause.base_ns)},
                          {"new_ns", Nullable(cause.new_ns)}});
  Json work = Json::array(), owners = Json::array();
  for (const WorkChange& change : comparison.work.rows)
    work.push_back(Json{{"kind", change.kind},
                        {"name", change.name},
                        {"calls", change.calls},
                        {"time_ns", std::round(change.time_ns)}});
  for (const auto& [owner, base] : comparison.base.totals.peak_bytes)
    if (const auto updated = comparison.updated.totals.peak_bytes.find(owner);
        updated != comparison.updated.totals.peak_bytes.end())
      owners.push_back(
          Json{{"owner", owner}, {"base", base}, {"new", updated->second}});
  Json contents = Json::array();
  for (const PartChange& change : AllocatedChanges(comparison))
    contents.push_back(
        Json{{"taken", change.part.taken},
             {"earlier_iteration", change.part.earlier_iteration},
             {"kernel", change.part.kernel.empty() ? Json() : Json(change.part.kernel)},
             {"base", change.base},
             {"new", change.updated}});
  Json differences = Json::array();
  for (const ProvenanceDifference& one : comparison.differences)
    differences.push_back(
        Json{{"what", one.what}, {"base", one.base}, {"new", one.updated}});
  for (const CheckedLimit& checked : limits)
    checks.push_back(
        Json{{"limit", checked.limit.text}, {"holds", checked.broken == nullptr}});
  return Json{{"schema", "vrank.compare/1"},
              {"base", comparison.base.subject},
              {"new", comparison.updated.subject},
              {"verdict", limits.empty() ? "none" : Verdict(limits)},
              {"findings", findings},
              {"limits", checks},
              {"causes", causes},
              {"work_per", comparison.work.per_iteration ? "iteration" : "run"},
              {"work", work},
              {"peak_owners", owners},
              {"peak_contents", contents},
              {"differences", differences}}
      .dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string ComparisonMarkdown(const Comparison& comparison,
                               const std::vector<CheckedLimit>& limits) {
  std::string text = fmt::format("### vrank: {}\n\n{}\n\n",
                                 limits.empty() ? "comparison" : Verdict(limits),
                                 comparison.updated.job);
  for (const ProvenanceDifference& one : comparison.differences)
    text += fmt::format("- {}\n", DifferenceLine(one));
  if (!comparison.differences.empty())
    text += "\n";
  text += "| | base | new | change | | confidence |\n|---|--:|--:|--:|--:|---|\n";
  for (const Finding& finding : comparison.findings) {
    if (!finding.is_shown)
      continue;
    const Unit unit = finding.base.unit;
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} |\n", finding.base.name,
        Amount(unit, finding.base.value), Amount(unit, finding.updated.value),
        Change(unit, finding.change()), Percent(finding), finding.confidence);
  }
  for (const CheckedLimit& checked : limits)
    text += checked.broken == nullptr
                ? fmt::format("\n- `{}` holds", checked.limit.text)
                : fmt::format("\n- **`{}` fails**: {}", checked.limit.text,
                              Because(checked));
  if (!comparison.causes.empty()) {
    text += "\n\n| critical path | base | new | change |\n|---|--:|--:|--:|\n";
    for (size_t i = 0; i < std::min(kCausesShown, comparison.causes.size()); ++i) {
      text += fmt::format("| {} |\n", fmt::join(CauseRow(comparison.causes[i]), " | "));
    }
  }
  if (const auto shown = ShownWork(comparison); !shown.empty()) {
    text +=
        "\n\n| what ranks do, per iteration | | calls | time |\n|---|---|--:|--:|\n";
    for (const WorkChange& change : shown)
      text += fmt::format("| {} |\n", fmt::join(WorkRow(change), " | "));
  }
  if (const auto rows = MemoryRows(comparison); !rows.empty()) {
    text += "\n\n| at the peak | base | new | change |\n|---|--:|--:|--:|\n";
    for (const std::vector<std::string>& row : rows)
      text += fmt::format("| {} |\n", fmt::join(row, " | "));
  }
  return text + "\n";
}

std::string ComparisonJUnit(const Comparison& comparison,
                            const std::vector<CheckedLimit>& limits) {
  const auto failures = std::count_if(
      limits.begin(), limits.end(),
      [](const CheckedLimit& checked) { return checked.broken != nullptr; });
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"vrank compare\" "
      "tests=\"{}\" failures=\"{}\">\n",
      limits.size(), failures);
  for (const CheckedLimit& checked : limits) {
    text += fmt::format("  <testcase classname=\"{}\" name=\"{}\"",
                        EscapeXml(comparison.updated.subject),
                        EscapeXml(checked.limit.text));
    text += checked.broken == nullptr
                ? std::string("/>\n")
                : fmt::format(">\n    <failure message=\"{}\"/>\n  </testcase>\n",
                              EscapeXml(Because(checked)));
  }
  return text + "</testsuite>\n";
}

}  // namespace vrank::tools
