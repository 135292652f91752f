#include "tools/report/recording_report.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>

#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string SignedTime(int64_t ns) {
  return fmt::format("{}{}", ns < 0 ? "-" : "", FormatTime(std::abs(ns)));
}

std::string Sentence(const Differences& differences) {
  std::string text =
      fmt::format("{} in the median, {} at most", FormatTime(differences.median_ns),
                  FormatTime(differences.largest_ns));
  if (!differences.largest_at.empty())
    text += fmt::format(" ({})", differences.largest_at);
  return text;
}

Json DifferencesJson(const Differences& differences) {
  return Json{{"count", differences.count},
              {"median_ns", differences.median_ns},
              {"largest_ns", differences.largest_ns},
              {"largest_at", differences.largest_at}};
}

}  // namespace

std::string ComparisonText(const RecordingComparison& comparison) {
  Table table;
  table.Add({"rank", "iteration", "recorded", "replayed", "error", "ends later by"});
  for (const RecordingComparison::Iteration& one : comparison.iterations)
    table.Add({std::to_string(one.rank), one.name, FormatTime(one.recorded_ns),
               FormatTime(one.replayed_ns), fmt::format("{:+.3f} %", one.Error() * 100),
               SignedTime(one.end_difference_ns)});
  std::string text = table.ToString(0);
  if (comparison.collective_ends.count != 0)
    text += fmt::format(
        "{} ends of collectives differ by {}\n"
        "recorded ends of one collective's members are apart by {}\n",
        FormatCount(comparison.collective_ends.count),
        Sentence(comparison.collective_ends), Sentence(comparison.collective_noise));
  return text + fmt::format("{} ends of work differ by {}\n",
                            FormatCount(comparison.work_ends.count),
                            Sentence(comparison.work_ends));
}

Json ComparisonJson(const RecordingComparison& comparison) {
  Json iterations = Json::array();
  for (const RecordingComparison::Iteration& one : comparison.iterations)
    iterations.push_back(
        Json{{"rank", one.rank},
             {"name", one.name},
             {"recorded_ns", one.recorded_ns},
             {"replayed_ns", one.replayed_ns},
             {"error", std::round(one.Error() * 1e6) / 1e6},
             {"end_difference_ns", one.end_difference_ns},
             {"device_end_difference_ns", one.device_end_difference_ns
                                              ? Json(*one.device_end_difference_ns)
                                              : Json(nullptr)}});
  return Json{{"iterations", iterations},
              {"collective_ends", DifferencesJson(comparison.collective_ends)},
              {"collective_noise", DifferencesJson(comparison.collective_noise)},
              {"work_ends", DifferencesJson(comparison.work_ends)}};
}

}  // namespace vrank::tools
