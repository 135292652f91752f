#include "base/pattern.h"

#include <re2/re2.h>

#include <algorithm>

#include <fmt/format.h>

namespace vrank {

absl::StatusOr<Pattern> Pattern::Compile(const std::string& text, Case letters) {
  RE2::Options options(RE2::Latin1);  // bytes
  options.set_log_errors(false);
  options.set_case_sensitive(letters == Case::kMatters);
  Pattern pattern;
  pattern.compiled_ = std::make_shared<const RE2>(text, options);
  if (pattern.compiled_->ok())
    return pattern;
  return absl::InvalidArgumentError(fmt::format(
      "{}; the syntax is RE2's, which has no backreferences and no lookaround",
      pattern.compiled_->error()));
}

bool Pattern::Matches(std::string_view text) const {
  Groups none;
  return Matches(text, 0, &none);
}

bool Pattern::Matches(std::string_view text, size_t most, Groups* groups) const {
  groups->clear();
  if (compiled_ == nullptr)
    return false;
  const size_t count =
      std::min(most, static_cast<size_t>(compiled_->NumberOfCapturingGroups()));
  // The first is the whole match.
  std::vector<re2::StringPiece> parts(count == 0 ? 0 : count + 1);
  const re2::StringPiece whole(text.data(), text.size());
  if (!compiled_->Match(whole, 0, text.size(), RE2::ANCHOR_BOTH, parts.data(),
                        static_cast<int>(parts.size())))
    return false;
  for (size_t i = 1; i < parts.size(); ++i)
    groups->push_back(
        parts[i].data() == nullptr
            ? std::nullopt
            : std::optional(std::string_view(parts[i].data(), parts[i].size())));
  return true;
}

}  // namespace vrank
