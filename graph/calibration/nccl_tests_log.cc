#include "graph/calibration/nccl_tests_log.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/strings/strip.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace vrank::graph {
namespace {

using Words = std::vector<absl::string_view>;

// "[1,0]<stdout>: # ...", as mpirun --tag-output prints.
absl::string_view WithoutTag(absl::string_view line) {
  if (absl::StartsWith(line, "["))
    if (const size_t end = line.find(">:"); end != absl::string_view::npos)
      return line.substr(end + 2);
  return line;
}

Words WordsOf(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
}

// Of the operations whose names are in the text, the longest name ("reduce" is in
// "all_reduce").
std::string OperationIn(absl::string_view text) {
  std::string found;
  for (const std::string& name : NcclTestsOperations())
    if (name.size() > found.size() && text.find(name) != absl::string_view::npos)
      found = name;
  return found;
}

class Reader {
 public:
  Reader(const std::string& file, const std::string& operation)
      : file_(file), stated_(operation) {}

  absl::Status ReadLine(absl::string_view line, int number) {
    line = absl::StripAsciiWhitespace(WithoutTag(line));
    if (absl::StartsWith(line, "#")) {
      ReadComment(line.substr(1));
      return absl::OkStatus();
    }
    const Words words = WordsOf(line);
    MeasuredTable::Row row;
    if (!time_column_ || words.size() <= *time_column_ ||
        !absl::SimpleAtoi(words[0], &row.bytes) ||
        !absl::SimpleAtod(words[*time_column_], &row.us) || !std::isfinite(row.us))
      return absl::OkStatus();  // a message, or a size that failed ("N/A")
    if (row.us <= 0 || row.bytes == 0)
      return absl::OkStatus();  // nothing is moved: 0 bytes
    if (!in_table_) {
      if (absl::Status begun = BeginTable(number); !begun.ok())
        return begun;
    }
    tables_.back().rows.push_back(row);
    return absl::OkStatus();
  }

  std::vector<MeasuredTable> Take() { return std::move(tables_); }

 private:
  absl::Status BeginTable(int number) {
    const auto refuse = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          fmt::format("log '{}', line {}: {}", file_, number, what));
    };
    MeasuredTable table;
    table.file = file_;
    table.line = number;
    table.operation = stated_;
    if (table.operation.empty())
      table.operation = operation_;
    if (table.operation.empty())
      table.operation = OperationIn(file_.substr(file_.rfind('/') + 1));
    if (table.operation.empty())
      return refuse(fmt::format(
          "the operation of this table is not stated; name it, as in all_reduce={}",
          file_));
    table.ranks = ranks_;
    table.hosts = static_cast<int64_t>(hosts_.size());
    if (ranks_ < 2)
      return refuse(
          fmt::format("{} before this table; keep the lines \"#  Rank ...\" of the log",
                      ranks_ == 0 ? "no rank is listed" : "a single rank is listed"));
    if (ranks_ % table.hosts != 0)
      return refuse(
          fmt::format("{} ranks on {} hosts; logs with equally many ranks on "
                      "each host can be used",
                      ranks_, table.hosts));
    tables_.push_back(std::move(table));
    in_table_ = true;
    return absl::OkStatus();
  }

  void ReadComment(absl::string_view comment) {
    const Words words = WordsOf(comment);
    if (words.empty())
      return;
    if (words[0] == "Rank") {
      ReadRank(words);
    } else if (words[0] == "size") {  // the head of the columns
      const auto time = std::find(words.begin(), words.end(), "time");
      if (time != words.end())
        time_column_ = static_cast<size_t>(time - words.begin());
      in_table_ = false;
    } else if (comment.find("Collective test starting") != absl::string_view::npos) {
      operation_ = OperationIn(comment);
      ranks_are_complete_ = true;
    } else if (comment.find("Using devices") != absl::string_view::npos) {
      ranks_are_complete_ = true;
    }
  }

  // "Rank  3 Group  0 Pid  812 on  node-1 device  3 [0x5d] NVIDIA H100 80GB HBM3"
  void ReadRank(const Words& words) {
    const auto on = std::find(words.begin(), words.end(), "on");
    if (on == words.end() || on + 1 == words.end())
      return;
    if (std::exchange(ranks_are_complete_, false)) {
      ranks_ = 0;
      hosts_.clear();
    }
    ++ranks_;
    hosts_.emplace(*(on + 1));
  }

  const std::string& file_;
  const std::string& stated_;
  std::string operation_;  // as the log says
  int64_t ranks_ = 0;
  std::set<std::string> hosts_;
  bool ranks_are_complete_ = false;  // the next one is of another test
  std::optional<size_t> time_column_;
  bool in_table_ = false;
  std::vector<MeasuredTable> tables_;
};

}  // namespace

const std::vector<std::string>& NcclTestsOperations() {
  static const auto* const names = new std::vector<std::string>{
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
      "alltoall",   "gather",     "scatter",        "sendrecv"};
  return *names;
}

absl::StatusOr<std::vector<MeasuredTable>> ReadNcclTestsLog(
    const std::string& file, const std::string& text, const std::string& operation) {
  Reader reader(file, operation);
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n'))
    if (absl::Status read = reader.ReadLine(line, ++number); !read.ok())
      return read;
  std::vector<MeasuredTable> tables = reader.Take();
  if (tables.empty())
    return absl::InvalidArgumentError(
        fmt::format("log '{}': there is no table of nccl-tests in it (a line \"# size "
                    "count type ... time\" and rows of numbers)",
                    file));
  return tables;
}

}  // namespace vrank::graph
