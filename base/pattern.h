// Regular expressions that users write: in flags and in description files.
//
// RE2 matches in time linear in the text and without recursion, so that no pattern and
// no name, however long, can hang or overflow the stack of a session. Backreferences
// and lookaround are therefore errors. Patterns and texts are bytes: names of kernels
// and ranges need not be UTF-8.
//
// Thread rule: immutable; may be shared by threads.

#ifndef VRANK_BASE_PATTERN_H_
#define VRANK_BASE_PATTERN_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace re2 {
class RE2;
}

namespace vrank {

class Pattern {
 public:
  enum class Case { kMatters, kIgnored };

  Pattern() = default;  // matches nothing
  // The error says what is wrong; the subject is left to the caller.
  static absl::StatusOr<Pattern> Compile(const std::string& text,
                                         Case letters = Case::kMatters);

  // The whole of `text` matches.
  bool Matches(std::string_view text) const;
  // ... and what its first groups matched, at most `most`; nullopt: a group that took
  // no part. The views are into `text`.
  using Groups = std::vector<std::optional<std::string_view>>;
  bool Matches(std::string_view text, size_t most, Groups* groups) const;

 private:
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace vrank

#endif  // VRANK_BASE_PATTERN_H_
