#include "tools/compare/comparison.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kReplaySchema[] = "vrank.replay/1";
constexpr char kEmulateSchema[] = "vrank.emulate/1";

// Differences and sums of a few of them stay in 64 bits.
constexpr int64_t kMostAmount = int64_t{1} << 60;

// A value that no result has: the file was edited, or is of something else. Caught in
// ReadResult, as the exceptions of the JSON library are.
struct UnfitValue : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Enough of a value to recognise it.
std::string Excerpt(const Json& json) {
  constexpr size_t kShown = 40;
  if (json.is_structured())
    return json.is_array() ? "a list" : "an object";
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

// The library's own message for a missing key speaks of the library.
const Json& At(const Json& json, const char* key) {
  if (const auto found = json.is_object() ? json.find(key) : json.end();
      found != json.end())
    return *found;
  throw UnfitValue(fmt::format("it has no '{}' where docs/json.md has one", key));
}

// A text of one line, since it is printed.
std::string TextAt(const Json& json, const char* key) {
  const Json& text = At(json, key);
  if (text.is_string()) {
    const auto& value = text.get_ref<const std::string&>();
    if (std::none_of(value.begin(), value.end(),
                     [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      return value;
  }
  throw UnfitValue(
      fmt::format("{} is {}; expected a text of one line", key, Excerpt(text)));
}

int64_t Amount(const Json& json, const char* what) {
  if (json.is_number_unsigned() && json.get<uint64_t>() <= kMostAmount)
    return json.get<int64_t>();
  throw UnfitValue(fmt::format("{} is {}; expected a whole number from 0 to {}", what,
                               Excerpt(json), kMostAmount));
}

int64_t AmountAt(const Json& json, const char* key) {
  return Amount(At(json, key), key);
}

double Share(const Json& json, const char* key) {
  const Json& share = At(json, key);
  if (share.is_number() && share.get<double>() >= 0 && share.get<double>() <= 1)
    return share.get<double>();
  throw UnfitValue(
      fmt::format("{} is {}; expected a share from 0 to 1", key, Excerpt(share)));
}

int64_t AssumedTime(double share, int64_t length_ns) {
  return static_cast<int64_t>(share * static_cast<double>(length_ns) + 0.5);
}

// The iteration that a list of times, or the result, is about.
int64_t TimeOf(const Json& json, size_t iteration) {
  const Json& times = At(json, "iteration_time_ns");
  if (!times.is_array() || iteration >= times.size())
    throw UnfitValue(fmt::format("iteration_time_ns has no iteration {}", iteration));
  const int64_t time = Amount(times[iteration], "iteration_time_ns");
  if (time == 0)
    throw UnfitValue("an iteration of 0 ns");
  return time;
}

// Parts of the longest iteration; "exposed" is the sum over its operations.
void AddBreakdown(const Json& json, JobResult* result) {
  const auto iteration = static_cast<size_t>(AmountAt(json, "iteration"));
  const Json* longest = nullptr;
  for (const Json& one : At(json, "classes"))
    if (longest == nullptr || TimeOf(one, iteration) > TimeOf(*longest, iteration))
      longest = &one;
  if (longest == nullptr)
    return;
  const Json& breakdown = At(*longest, "breakdown");
  int64_t exposed = 0;
  for (const auto& [operation, ns] : At(breakdown, "exposed").items())
    exposed = std::min(kMostAmount, exposed + Amount(ns, operation.c_str()));
  result->metrics.push_back({"compute", Unit::kTime, AmountAt(breakdown, "compute")});
  result->metrics.push_back({"exposed_communication", Unit::kTime, exposed});
  for (const char* part : {"bubble", "copies", "host_bound"})
    result->metrics.push_back({part, Unit::kTime, AmountAt(breakdown, part)});
}

// A result of a version that did not state it has none.
std::optional<Provenance> ReadProvenance(const Json& json) {
  const auto found = json.find("provenance");
  if (found == json.end())
    return std::nullopt;
  Provenance provenance{
      At(*found, "command"), At(*found, "program"), At(*found, "options"), {}};
  for (const auto& [name, version] : At(*found, "software").items())
    provenance.software[name] = version;
  return provenance;
}

constexpr char kMeanIteration[] = "mean_iteration_time";

double PerIteration(double amount, const Json& json) {
  return amount / static_cast<double>(At(json, "iteration_time_ns").size());
}

// Older versions do not state it, nor do graphs of real GPUs.
void AddHostTime(const Json& json, JobResult* result) {
  const auto host = json.find("host_time");
  if (host != json.end() && (result->schema != kReplaySchema || host->contains("mode")))
    result->host_time = TextAt(*host, "mode");
}

void AddReplay(const Json& json, JobResult* result) {
  const int64_t iteration =
      TimeOf(json, static_cast<size_t>(AmountAt(json, "iteration")));
  int64_t peak = 0;
  bool peak_is_known = true;  // of every class
  for (const Json& one : At(json, "classes")) {
    if (At(one, "peak_memory_bytes").is_null())
      peak_is_known = false;
    else
      peak = std::max(peak, AmountAt(one, "peak_memory_bytes"));
  }
  result->is_imported = json.contains("recorded_ranks");
  result->metrics = {{"iteration_time", Unit::kTime, iteration}};
  if (peak_is_known)
    result->metrics.push_back({"peak_memory", Unit::kBytes, peak});
  AddBreakdown(json, result);
  AddHostTime(json, result);
  if (json.contains("communication_bytes")) {  // of this version
    result->work = PerIteration(static_cast<double>(AmountAt(json, "nodes")), json);
    result->communication_bytes =
        PerIteration(static_cast<double>(AmountAt(json, "communication_bytes")), json);
  }
  const Json& path = At(json, "critical_path");
  result->assumed_ns =
      AssumedTime(Share(At(json, "ledger"), "assumed"), AmountAt(path, "length_ns"));
  for (const Json& part : At(path, "contributors"))
    if (At(part, "kind") != "others")
      result->path.push_back(
          {At(part, "kind"), At(part, "name"), AmountAt(part, "time_ns")});
}

// CPU time of the program between its calls, on the critical path of all iterations.
int64_t OwnTimeOfIterations(const Json& json) {
  double ns = 0;
  for (const Json& ledger : At(json, "iteration_ledgers"))
    ns += (Share(ledger, "measured") + Share(ledger, "recorded")) *
          static_cast<double>(AmountAt(ledger, "critical_path_ns"));
  return std::llround(std::min(ns, static_cast<double>(kMostAmount)));
}

// Older versions do not state it.
std::map<AllocatedPart, int64_t> ReadContents(const Json& allocator) {
  std::map<AllocatedPart, int64_t> parts;
  const auto contents = allocator.find("peak_contents");
  if (contents == allocator.end() || contents->is_null())
    return parts;
  const auto add = [&parts](const AllocatedPart& part, const Json& row) {
    int64_t& bytes = parts[part];
    bytes = std::min(kMostAmount, bytes + AmountAt(row, "bytes"));
  };
  for (const Json& row : At(*contents, "rows")) {
    AllocatedPart part{TextAt(row, "taken"), At(row, "earlier_iteration") == true, ""};
    add(part, row);
    for (const Json& launch : At(row, "launches")) {
      part.kernel = TextAt(launch, "kernel");
      if (!part.kernel.empty())
        add(part, launch);
    }
  }
  return parts;
}

// Of a result of this version; an older one lacks some of it, and has no totals then.
WorkTotals ReadTotals(const Json& json) {
  WorkTotals totals;
  const auto add = [&totals](const char* kind, const std::string& name, const Json& row,
                             const char* calls) {
    WorkTotal& total = totals.rows[{kind, name}];
    total.calls = std::min(kMostAmount, total.calls + AmountAt(row, calls));
    total.time_ns = std::min(kMostAmount, total.time_ns + AmountAt(row, "time_ns"));
  };
  const Json& ranks = At(json, "ranks");
  for (const Json& rank : ranks) {
    if (!rank.contains("host") || !rank.contains("peak_memory_by_owner_bytes"))
      return {};
    for (const auto& [name, row] : At(rank, "communication").items())
      add("communication", name, row, "calls");
    // How often a rank asks while it waits is no work.
    for (const auto& [name, row] : At(rank, "host").items())
      if (name != "synchronising and asking" && name != kOwnTime)
        add("host", name, row, "calls");
    WorkTotal& blocked = totals.rows[{"host", kHostBlocked}];
    blocked.time_ns =
        std::min(kMostAmount, blocked.time_ns + AmountAt(rank, "waited_ns"));
    if (AmountAt(rank, "rank") != AmountAt(At(json, "memory"), "peak_rank"))
      continue;
    for (const auto& [owner, bytes] : At(rank, "peak_memory_by_owner_bytes").items())
      totals.peak_bytes[owner] = Amount(bytes, owner.c_str());
    if (const auto allocator = rank.find("allocator");
        allocator != rank.end() && !allocator->is_null()) {
      totals.peak_bytes["allocated"] = AmountAt(*allocator, "peak_allocated_bytes");
      totals.allocated = ReadContents(*allocator);
    }
  }
  for (const Json& kernel : At(json, "kernels"))
    add("kernel", TextAt(kernel, "name"), kernel, "count");
  totals.iterations = static_cast<int64_t>(At(json, "iteration_time_ns").size());
  totals.ranks = static_cast<int64_t>(ranks.size());
  // That of the start, most of a short run's, is no part of an iteration. One rank's is
  // on the critical path.
  if (json.contains("iteration_ledgers"))
    totals.rows[{"host", kOwnTimeOnPath}].time_ns =
        std::min(kMostAmount, OwnTimeOfIterations(json) * totals.ranks);
  return totals;
}

// REQUIRES: there are iterations.
int64_t MeanIteration(const Json& json) {
  const size_t count = At(json, "iteration_time_ns").size();
  if (count == 1)
    return TimeOf(json, 0);
  double sum = 0;
  for (size_t i = 1; i < count; ++i)
    sum += static_cast<double>(TimeOf(json, i));
  // Older versions do not state it.
  const auto between = json.find("between_iterations_ns");
  const int64_t passes = between == json.end() || between->is_null()
                             ? 0
                             : Amount(*between, "between_iterations_ns");
  return static_cast<int64_t>(sum / static_cast<double>(count - 1) + 0.5) + passes;
}

// What the GPU does in the longest last iteration of a real rank. Older versions do not
// state it.
void AddGpuTime(const Json& json, JobResult* result) {
  const Json* longest = nullptr;
  int64_t most = 0;
  for (const Json& rank : At(json, "ranks")) {
    const auto time = rank.find("last_iteration_gpu");
    if (time == rank.end() || time->is_null())
      continue;
    const Json& lengths = At(rank, "iteration_time_ns");
    const int64_t length =
        lengths.empty() ? 0 : Amount(lengths.back(), "iteration_time_ns");
    if (longest == nullptr || length > most) {
      longest = &*time;
      most = length;
    }
  }
  if (longest == nullptr)
    return;
  for (const char* part : {"compute", "exposed_communication", "copies", "idle"})
    result->metrics.push_back(
        {part, Unit::kTime, AmountAt(*longest, (std::string(part) + "_ns").c_str())});
}

void AddEmulation(const Json& json, JobResult* result) {
  const Json& iterations = At(json, "iteration_time_ns");
  const int64_t iteration = TimeOf(json, iterations.size() - 1);
  result->metrics = {
      {"iteration_time", Unit::kTime, iteration},
      {"peak_memory", Unit::kBytes, AmountAt(At(json, "memory"), "peak_bytes")},
      {kMeanIteration, Unit::kTime, MeanIteration(json)}};
  result->assumed_ns = AssumedTime(Share(At(json, "ledger"), "assumed"), iteration);
  if (const auto bound = json.find("host_bound"); bound != json.end()) {
    result->is_lower_bound = !bound->is_null();
    if (result->is_lower_bound)
      AmountAt(*bound, "cpu_ns");
  }
  AddHostTime(json, result);
  if (!json.contains("provenance"))
    return;
  AddGpuTime(json, result);
  result->totals = ReadTotals(json);
  double flops = 0, bytes = 0;
  for (const Json& rank : At(json, "ranks")) {
    if (rank.contains("flops"))
      flops += static_cast<double>(AmountAt(rank, "flops"));
    for (const auto& [operation, total] : At(rank, "communication").items())
      bytes += static_cast<double>(AmountAt(total, "bytes"));
  }
  result->work = PerIteration(flops, json);
  result->communication_bytes = PerIteration(bytes, json);
}

const Metric* Find(const std::vector<Metric>& metrics, const std::string& name) {
  for (const Metric& metric : metrics)
    if (metric.name == name)
      return &metric;
  return nullptr;
}

// The recordings of host time that were played, as the options name them; "" where
// none.
std::string RecordingOf(const JobResult& result) {
  if (result.host_time != "recorded" || !result.provenance.has_value())
    return result.host_time == "recorded" ? result.subject : "";
  constexpr std::string_view kOption = "host_time:";
  const std::string& options = result.provenance->options;
  const size_t begin = options.find(kOption);
  return begin == std::string::npos
             ? ""
             : options.substr(begin, options.find(' ', begin) - begin);
}

std::string Confidence(const Finding& finding, const Comparison& comparison) {
  const int64_t assumed =
      std::max(comparison.base.assumed_ns, comparison.updated.assumed_ns);
  const bool imported = comparison.base.is_imported || comparison.updated.is_imported;
  if (finding.base.unit == Unit::kBytes)
    return imported ? "recorded" : "exact";
  if (comparison.base.is_lower_bound || comparison.updated.is_lower_bound)
    return "lower bound";
  for (const JobResult* result : {&comparison.base, &comparison.updated})
    if (result->host_time == "measured")
      return "measured";
  if (RecordingOf(comparison.base) != RecordingOf(comparison.updated))
    return "recorded";
  if (assumed == 0)
    return "exact";
  return std::abs(finding.change()) > assumed ? "modelled" : "assumed";
}

// The mean says something of its own where iterations differ: every tenth one writes a
// checkpoint, and the last one does not.
bool SaysMore(const Metric& mean, const JobResult& result) {
  constexpr double kAlike = 0.005;
  const Metric* const last = Find(result.metrics, "iteration_time");
  return last != nullptr && std::abs(static_cast<double>(mean.value - last->value)) >
                                kAlike * static_cast<double>(last->value);
}

// By how much an amount changed, as a share of the base; 0 where one is not known.
double Change(double base, double updated) {
  return base > 0 && updated > 0 ? updated / base - 1 : 0;
}

// Half the layers are less of everything: a smaller model, no faster program.
bool IsOtherModel(const JobResult& base, const JobResult& updated) {
  const double work = Change(base.work, updated.work);
  const bool communicates =
      base.communication_bytes > 0 && updated.communication_bytes > 0;
  const double bytes =
      communicates ? Change(base.communication_bytes, updated.communication_bytes)
                   : work;
  const double larger = 1 / kOtherModel - 1, smaller = kOtherModel - 1;
  return (work > larger && bytes > larger) || (work < smaller && bytes < smaller);
}

std::vector<Cause> Causes(const JobResult& base, const JobResult& updated) {
  std::map<std::pair<std::string, std::string>, Cause> causes;
  auto add = [&](const PathPart& part, std::optional<int64_t> Cause::*side) {
    Cause& cause = causes[{part.kind, part.name}];
    cause.kind = part.kind;
    cause.name = part.name;
    cause.*side = std::min(kMostAmount, (cause.*side).value_or(0) + part.time_ns);
  };
  for (const PathPart& part : base.path)
    add(part, &Cause::base_ns);
  for (const PathPart& part : updated.path)
    add(part, &Cause::new_ns);
  std::vector<Cause> changed;
  for (const auto& [key, cause] : causes)
    if (cause.base_ns != cause.new_ns)
      changed.push_back(cause);
  std::stable_sort(changed.begin(), changed.end(), [](const Cause& a, const Cause& b) {
    return std::abs(a.change()) > std::abs(b.change());
  });
  return changed;
}

// Notes a key that an object has twice: which of the two counts, no rule says.
Json::parser_callback_t KeysOnce(std::string* twice) {
  auto open = std::make_shared<std::vector<std::set<std::string>>>();
  return [open, twice](int, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start)
      open->emplace_back();
    else if (event == Event::object_end)
      open->pop_back();
    else if (event == Event::key && !open->back().insert(parsed).second)
      *twice = parsed;
    return true;
  };
}

}  // namespace

absl::StatusOr<JobResult> ReadResult(const std::string& subject,
                                     const std::string& text) {
  std::string twice;
  const Json json = Json::parse(text, KeysOnce(&twice), false);
  if (!json.is_discarded() && !twice.empty())
    return absl::InvalidArgumentError(
        fmt::format("result '{}': key {} stands twice in one object", subject,
                    Excerpt(Json(twice))));
  if (json.is_discarded() || !json.is_object() || !json.contains("schema") ||
      !json["schema"].is_string())
    return absl::InvalidArgumentError(
        fmt::format("result '{}': it is no JSON of `vrank replay --json` or `vrank "
                    "emulate --json`",
                    subject));
  JobResult result;
  result.subject = subject;
  result.schema = json["schema"];
  const bool is_replay = result.schema == kReplaySchema;
  if (!is_replay && result.schema != kEmulateSchema)
    return absl::InvalidArgumentError(
        fmt::format("result '{}': its schema is '{}'; compare takes '{}' and '{}'",
                    subject, result.schema, kReplaySchema, kEmulateSchema));
  // The fields are those of the schema, but a file can be cut or edited by hand.
  try {
    if (At(json, "iteration_time_ns").empty())
      return absl::InvalidArgumentError(fmt::format(
          "result '{}': it has no iterations; name the program's NVTX ranges with "
          "--iteration-range where it is made",
          subject));
    if (const auto failure = json.find("failure");
        failure != json.end() && !failure->is_null())
      return absl::InvalidArgumentError(
          fmt::format("result '{}': its job failed, so it is about a part of it: {}",
                      subject, Excerpt(*failure)));
    result.provenance = ReadProvenance(json);
    result.job = fmt::format(
        "{} ranks, {} on {}, {}", AmountAt(json, "world_size"), TextAt(json, "layout"),
        At(json, "gpu").is_null() ? "GPUs of an unknown kind" : TextAt(json, "gpu"),
        TextAt(json, "cluster"));
    is_replay ? AddReplay(json, &result) : AddEmulation(json, &result);
  } catch (const std::exception& error) {  // of the library, or UnfitValue
    return absl::InvalidArgumentError(
        fmt::format("result '{}': {}", subject, error.what()));
  }
  return result;
}

double Finding::relative_change() const {
  if (base.value == 0)
    return change() == 0 ? 0 : 1;
  return static_cast<double>(change()) / static_cast<double>(base.value);
}

absl::StatusOr<Comparison> Compare(JobResult base, JobResult updated, bool any_job) {
  if (base.schema != updated.schema)
    return absl::InvalidArgumentError(
        fmt::format("'{}' is a {} and '{}' a {}; compare two of a kind", base.subject,
                    base.schema, updated.subject, updated.schema));
  if (base.job != updated.job && !any_job)
    return absl::InvalidArgumentError(
        fmt::format("'{}' is of {}; '{}' of {}: a change of the job is no change of "
                    "the program; --any-job compares them all the same",
                    base.subject, base.job, updated.subject, updated.job));
  if (!any_job && IsOtherModel(base, updated)) {
    const bool communicates = base.communication_bytes > 0;
    return absl::InvalidArgumentError(fmt::format(
        "'{}' has {:+.1f} % {} per iteration than '{}'{}: that is another model or "
        "batch, and no change of the same one; --any-job compares them all the same",
        updated.subject, 100 * Change(base.work, updated.work),
        base.schema == kReplaySchema ? "operations" : "FLOPs", base.subject,
        communicates ? fmt::format(" and {:+.1f} % bytes of communication",
                                   100 * Change(base.communication_bytes,
                                                updated.communication_bytes))
                     : ""));
  }
  Comparison comparison;
  if (base.provenance && updated.provenance)
    comparison.differences = FindDifferences(*base.provenance, *updated.provenance);
  comparison.base = std::move(base);
  comparison.updated = std::move(updated);
  for (const Metric& metric : comparison.base.metrics) {
    const Metric* other = Find(comparison.updated.metrics, metric.name);
    if (other == nullptr)
      continue;
    Finding finding;
    finding.base = metric;
    finding.updated = *other;
    finding.confidence = Confidence(finding, comparison);
    const bool is_absent = comparison.base.schema == kEmulateSchema &&
                           metric.value == 0 && other->value == 0;
    finding.is_shown = !is_absent && (metric.name != kMeanIteration ||
                                      SaysMore(metric, comparison.base) ||
                                      SaysMore(*other, comparison.updated));
    comparison.findings.push_back(std::move(finding));
  }
  comparison.causes = Causes(comparison.base, comparison.updated);
  comparison.work = FindWorkChanges(comparison.base.totals, comparison.updated.totals);
  return comparison;
}

}  // namespace vrank::tools
