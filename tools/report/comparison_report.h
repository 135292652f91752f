// How a comparison is told: to a person, to a program, to a pull request, to a CI
// server.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_COMPARISON_REPORT_H_
#define VRANK_TOOLS_REPORT_COMPARISON_REPORT_H_

#include <string>
#include <vector>

#include "tools/compare/comparison_limit.h"

namespace vrank::tools {

struct CheckedLimit {
  Limit limit;
  const Finding* broken = nullptr;  // nullptr: it holds
};

bool Passed(const std::vector<CheckedLimit>& limits);

std::string ComparisonText(const Comparison& comparison,
                           const std::vector<CheckedLimit>& limits);
// Schema "vrank.compare/1", docs/json.md.
std::string ComparisonJson(const Comparison& comparison,
                           const std::vector<CheckedLimit>& limits);
std::string ComparisonMarkdown(const Comparison& comparison,
                               const std::vector<CheckedLimit>& limits);
// One test case per limit.
std::string ComparisonJUnit(const Comparison& comparison,
                            const std::vector<CheckedLimit>& limits);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_COMPARISON_REPORT_H_
