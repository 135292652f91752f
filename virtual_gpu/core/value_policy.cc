#include "virtual_gpu/core/value_policy.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vrank::gpu {
namespace {

struct Rule {
  std::vector<unsigned char> element;
  std::string pattern;
};

int Digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Empty where these are no pairs of digits.
std::vector<unsigned char> BytesOfDigits(std::string_view digits) {
  std::vector<unsigned char> bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    const int high = Digit(digits[i]), low = Digit(digits[i + 1]);
    if (high < 0 || low < 0)
      return {};
    bytes.push_back(static_cast<unsigned char>(high << 4 | low));
  }
  return bytes;
}

std::string Demangled(const char* name) {
  // Other names may be those of types to the demangler: "h" is unsigned char.
  if (!std::string_view(name).starts_with("_Z"))
    return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

class RulePolicy {
 public:
  explicit RulePolicy(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  bool operator()(const char* writer, unsigned char* to, uint64_t bytes) {
    const auto [known, is_new] = of_writer_.try_emplace(writer, nullptr);
    if (is_new) {
      const std::string name = Demangled(writer);
      for (const Rule& rule : rules_) {
        if (!MatchesPattern(name, rule.pattern))
          continue;
        known->second = &rule;
        break;
      }
    }
    if (known->second == nullptr)
      return false;
    const std::vector<unsigned char>& element = known->second->element;
    for (uint64_t i = 0; i < bytes; ++i)
      to[i] = element[i % element.size()];
    return true;
  }

 private:
  const std::vector<Rule> rules_;
  std::map<const char*, const Rule*> of_writer_;  // names live as long as the process
};

}  // namespace

bool MatchesPattern(std::string_view text, std::string_view pattern) {
  // The last * stands for as little as it can; where that fails, for one more.
  size_t t = 0, p = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

ValuePolicy MakeValuePolicy(std::string_view rules) {
  std::vector<Rule> parsed;
  while (!rules.empty()) {
    const std::string_view line = rules.substr(0, rules.find('\n'));
    rules.remove_prefix(std::min(line.size() + 1, rules.size()));
    const size_t space = line.find(' ');
    if (space == std::string_view::npos)
      continue;
    Rule rule{BytesOfDigits(line.substr(0, space)),
              std::string(line.substr(space + 1))};
    if (!rule.element.empty())
      parsed.push_back(std::move(rule));
  }
  // Shared: a copy of the policy would have rules elsewhere.
  auto policy = std::make_shared<RulePolicy>(std::move(parsed));
  return [policy](const char* writer, unsigned char* to, uint64_t bytes) {
    return (*policy)(writer, to, bytes);
  };
}

}  // namespace vrank::gpu
