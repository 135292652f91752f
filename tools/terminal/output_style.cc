#include "tools/terminal/output_style.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

namespace vrank::tools {

std::string FormatTime(int64_t ns) {
  const double value = static_cast<double>(ns);
  const double magnitude = std::fabs(value);
  if (magnitude < 1e3)
    return fmt::format("{} ns", ns);
  if (magnitude < 1e6)
    return fmt::format("{:.3f} us", value / 1e3);
  if (magnitude < 1e9)
    return fmt::format("{:.3f} ms", value / 1e6);
  return fmt::format("{:.3f} s", value / 1e9);
}

std::string FormatBytes(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (std::fabs(bytes) >= 1024 && unit + 1 < std::size(units)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.2f} {}", bytes, units[unit]);
}

std::string FormatCount(uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0)
      text += ',';
    text += digits[i];
  }
  return text;
}

std::string FormatFlops(double flops) {
  const char* const units[] = {"FLOP",  "kFLOP", "MFLOP", "GFLOP",
                               "TFLOP", "PFLOP", "EFLOP"};
  size_t unit = 0;
  while (flops >= 1000 && unit + 1 < std::size(units)) {
    flops /= 1000;
    ++unit;
  }
  return fmt::format("{:.4g} {}", flops, units[unit]);
}

std::string FormatPercent(double share) {
  if (share > 0 && share < 0.0005)
    return "< 0.1 %";
  return fmt::format("{:.1f} %", share * 100);
}

namespace {

void Remove(std::string_view part, std::string* name) {
  for (size_t at; (at = name->find(part)) != std::string::npos;)
    name->erase(at, part.size());
}

// Of a demangled function template: neither its result nor its parameters' types.
void RemoveSignature(std::string* name) {
  constexpr std::string_view kResult = "void ";
  if (!name->starts_with(kResult))
    return;
  int depth = 0;
  size_t end = kResult.size();
  for (; end < name->size() && (depth > 0 || (*name)[end] != '('); ++end)
    depth += (*name)[end] == '<' ? 1 : (*name)[end] == '>' ? -1 : 0;
  *name = name->substr(kResult.size(), end - kResult.size());
}

}  // namespace

std::string Shortened(const std::string& name) {
  constexpr size_t kShown = 60, kAtEnd = 20;
  constexpr std::string_view kGap = "...";
  if (name.size() <= kShown)
    return name;
  std::string shown = name;
  for (const std::string_view part : {"(anonymous namespace)::", "at::native::"})
    Remove(part, &shown);
  RemoveSignature(&shown);
  if (shown.size() > kShown)
    shown.replace(kShown - kAtEnd - kGap.size(), shown.size() - (kShown - kGap.size()),
                  kGap);
  return shown;
}

std::string Table::ToString(size_t indent) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.size(); ++i)
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace vrank::tools
