#include "graph/what_if/what_if.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vrank::graph {
namespace {

constexpr double kLargestFactor = 1000;
constexpr char kForms[] =
    "an edit is `kernel GLOB x0.5`, `busiest stream x2`, `OPERATION x0.5`, "
    "`communication free`, `host "
    "free`, "
    "`rank N host as median`, `gaps free`, `launch_latency free` or `no stragglers`";

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c == ' ' || c == '\t') {
      if (!word.empty())
        words.push_back(std::move(word));
      word.clear();
    } else {
      word += c;
    }
  }
  if (!word.empty())
    words.push_back(std::move(word));
  return words;
}

// "x0.5", "free"; false: neither.
bool ParseFactor(const std::string& word, double* factor) {
  if (word == "free") {
    *factor = 0;
    return true;
  }
  if (word.size() < 2 || word[0] != 'x')
    return false;
  const char* const end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data() + 1, end, *factor);
  return error == std::errc() && at == end && std::isfinite(*factor) && *factor >= 0 &&
         *factor <= kLargestFactor;
}

bool ParseRank(const std::string& word, int32_t* rank) {
  const char* const end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, *rank);
  return error == std::errc() && at == end && *rank >= 0;
}

std::string Joined(const std::vector<std::string>& words, size_t from, size_t to) {
  std::string text;
  for (size_t i = from; i < to; ++i) {
    if (i != from)
      text += ' ';
    text += words[i];
  }
  return text;
}

// Of the words before the change; false: they name nothing.
bool ParseSubject(const std::vector<std::string>& words, WhatIf* edit) {
  if (words[0] == "kernel" && words.size() > 1) {
    edit->subject = WhatIf::Subject::kKernel;
    edit->name = Joined(words, 1, words.size());
    return true;
  }
  if (words[0] == "rank") {
    edit->subject = WhatIf::Subject::kHost;
    return words.size() == 3 && words[2] == "host" && ParseRank(words[1], &edit->rank);
  }
  if (words.size() == 2 && words[0] == "busiest" && words[1] == "stream") {
    edit->subject = WhatIf::Subject::kBusiestStream;
    return true;
  }
  if (words.size() != 1)
    return false;
  const std::string& word = words[0];
  if (word == "host") {
    edit->subject = WhatIf::Subject::kHost;
  } else if (word == "gaps") {
    edit->subject = WhatIf::Subject::kGaps;
  } else if (word == "launch_latency") {
    edit->subject = WhatIf::Subject::kLaunchLatency;
  } else if (word == "communication" || word == "network") {
    edit->subject = WhatIf::Subject::kCommunication;
  } else {
    const std::vector<std::string>& known = CommunicationNames();
    edit->subject = WhatIf::Subject::kCommunication;
    edit->name = word;
    return std::find(known.begin(), known.end(), word) != known.end();
  }
  return true;
}

absl::Status Wrong(const std::string& text, const std::string& why) {
  return absl::InvalidArgumentError(
      fmt::format("--what-if '{}': {}; {}", text, why, kForms));
}

absl::Status UnknownSubject(const std::string& text, const std::string& subject) {
  std::vector<std::string> names = CommunicationNames();
  for (const char* const other : {"kernel", "busiest stream", "communication",
                                  "network", "host", "gaps", "launch_latency"})
    names.emplace_back(other);
  return Wrong(text, fmt::format("nothing is named '{}'; nearest: {}", subject,
                                 fmt::join(NearestNames(subject, names, 3), ", ")));
}

// Fewest edits that make `wanted` a part of `name`.
size_t DistanceToPart(std::string_view wanted, std::string_view name) {
  std::vector<size_t> row(name.size() + 1, 0);  // a part may begin anywhere
  for (size_t i = 1; i <= wanted.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= name.size(); ++j) {
      const size_t change = diagonal + (wanted[i - 1] == name[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return *std::min_element(row.begin(), row.end());
}

}  // namespace

const std::vector<std::string>& CommunicationNames() {
  static const std::vector<std::string>* const names = new std::vector<std::string>{
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
      "reduce",     "gather",     "scatter",        "send_recv"};
  return *names;
}

absl::StatusOr<WhatIf> ParseWhatIf(std::string_view text) {
  const std::vector<std::string> words = Words(text);
  WhatIf edit;
  edit.text = Joined(words, 0, words.size());
  if (words.size() < 2)
    return Wrong(edit.text, "it states no change");
  if (words.size() == 2 && words[0] == "no" && words[1] == "stragglers") {
    edit.subject = WhatIf::Subject::kStragglers;
    edit.change = WhatIf::Change::kMedian;
    return edit;
  }
  const size_t count = words.size();
  if (words[count - 2] == "as" && words[count - 1] == "median")
    edit.change = WhatIf::Change::kMedian;
  else if (words[count - 2] == "as" && words[count - 1] == "mean")
    edit.change = WhatIf::Change::kMean;
  else if (!ParseFactor(words[count - 1], &edit.factor))
    return Wrong(edit.text,
                 fmt::format("'{}' is no change; give `free` or x and a factor from 0 "
                             "to {:g}",
                             words[count - 1], kLargestFactor));
  const bool is_like = edit.change != WhatIf::Change::kScale;
  const std::vector<std::string> subject(words.begin(),
                                         words.end() - (is_like ? 2 : 1));
  if (subject.size() == 2 && subject[0] == "no" && subject[1] == "stragglers" &&
      is_like) {
    edit.subject = WhatIf::Subject::kStragglers;
    return edit;
  }
  if (subject.empty() || !ParseSubject(subject, &edit))
    return UnknownSubject(edit.text, Joined(subject, 0, subject.size()));
  if (is_like && edit.subject != WhatIf::Subject::kHost)
    return Wrong(edit.text,
                 "`as median` is of a host; for works it is `no stragglers`");
  return edit;
}

bool GlobMatches(std::string_view glob, std::string_view text) {
  // The last star, and where the text was then: on a mismatch it takes one more.
  size_t g = 0, t = 0;
  size_t star = std::string_view::npos, after_star = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      after_star = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*')
    ++g;
  return g == glob.size();
}

std::vector<std::string> NearestNames(std::string_view wanted,
                                      const std::vector<std::string>& names,
                                      size_t most) {
  // Kernels' names may be long; a hint needs no more of them.
  constexpr size_t kRead = 256;
  std::string letters;
  for (const char c : wanted.substr(0, kRead))
    if (c != '*' && c != '?')
      letters += c;
  std::vector<std::pair<size_t, size_t>> by_distance;  // with the place
  for (size_t i = 0; i < names.size(); ++i)
    by_distance.emplace_back(
        DistanceToPart(letters, std::string_view(names[i]).substr(0, kRead)), i);
  std::sort(by_distance.begin(), by_distance.end());
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min(most, by_distance.size()); ++i)
    nearest.push_back(names[by_distance[i].second]);
  return nearest;
}

}  // namespace vrank::graph
