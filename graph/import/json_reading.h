// Reads a JSON file through a handler, and says in one sentence where and why it could
// not.
//
// RapidJSON reads iteratively: how deep a file nests costs its stack, never ours. It
// takes NaN and Infinity, which profilers write where they divide by zero.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_IMPORT_JSON_READING_H_
#define VRANK_GRAPH_IMPORT_JSON_READING_H_

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <string>
#include <string_view>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/import/file_kind.h"
#include "graph/import/json_source.h"

namespace vrank::graph {

inline constexpr unsigned kJsonFlags = rapidjson::kParseIterativeFlag |
                                       rapidjson::kParseNumbersAsStringsFlag |
                                       rapidjson::kParseNanAndInfFlag;

// `handler` has RapidJSON's methods and error(), which is not empty where it stopped.
template <class Handler>
absl::Status ReadJson(const std::string& subject, JsonSource* source,
                      Handler* handler) {
  if (const std::string_view other = DescribeOtherKind(source->Head()); !other.empty())
    return absl::InvalidArgumentError(fmt::format("{}: {}", subject, other));
  rapidjson::Reader reader;
  const rapidjson::ParseResult result =
      reader.Parse<kJsonFlags | rapidjson::kParseStopWhenDoneFlag>(*source, *handler);
  const auto at = [&](size_t byte) {
    return fmt::format("{}: byte {}", subject, byte);
  };
  if (!handler->error().empty())
    return absl::InvalidArgumentError(
        fmt::format("{}: {}; record again, or correct the file", at(source->Tell()),
                    handler->error()));
  if (!source->problem().empty())
    return absl::DataLossError(fmt::format("{}: {}; copy or record the file again",
                                           at(source->Tell()), source->problem()));
  const bool at_end = !source->MoreThanSpace();
  if (result.IsError()) {
    const std::string what = rapidjson::GetParseError_En(result.Code());
    // To the parser a zero byte is the end.
    if (result.Code() == rapidjson::kParseErrorDocumentEmpty)
      return absl::DataLossError(
          fmt::format("{}: the file {}; copy or record it again", subject,
                      at_end ? "is empty" : "begins with a zero byte"));
    if (at_end)
      return absl::DataLossError(
          fmt::format("{}: the file ends in the middle ({}); copy or record it again",
                      at(result.Offset()), what));
    return absl::InvalidArgumentError(fmt::format(
        "{}: no JSON ({}); correct the file there", at(result.Offset()), what));
  }
  if (!at_end)
    return absl::InvalidArgumentError(
        fmt::format("{}: more follows after the JSON has ended; correct the file there",
                    at(source->Tell())));
  return absl::OkStatus();
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_JSON_READING_H_
