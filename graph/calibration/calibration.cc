#include "graph/calibration/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "graph/models/cluster.h"

namespace vrank::graph {
namespace {

constexpr size_t kLeastSizes = 4;
constexpr uint64_t kLeastSpan = 64;  // the largest size over the smallest
// Tables of one site differ by less: nccl-tests repeats within some percent.
constexpr double kOtherSite = 1.5;

struct Operation {
  const char* name;
  CollectiveKind kind;
  ClusterOperation operation;
  bool is_total;  // the size is that of all members together
};
constexpr char kTransfer[] = "sendrecv";
constexpr Operation kOperations[] = {
    {"all_reduce", CollectiveKind::kAllReduce, ALL_REDUCE, false},
    {"all_gather", CollectiveKind::kAllGather, ALL_GATHER, true},
    {"reduce_scatter", CollectiveKind::kReduceScatter, REDUCE_SCATTER, true},
    {"broadcast", CollectiveKind::kBroadcast, BROADCAST, false},
    {"reduce", CollectiveKind::kReduce, REDUCE, false},
    {"alltoall", CollectiveKind::kAllToAll, ALL_TO_ALL, true},
    {"gather", CollectiveKind::kGather, GATHER, true},
    {"scatter", CollectiveKind::kScatter, SCATTER, true},
};

const Operation& Find(const std::string& name) {
  return *std::find_if(std::begin(kOperations), std::end(kOperations),
                       [&](const Operation& one) { return one.name == name; });
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

ErrorSpread SpreadOf(const std::vector<double>& errors) {
  if (errors.empty())
    return {};
  std::vector<double> sizes;
  for (const double error : errors)
    sizes.push_back(std::fabs(error));
  std::sort(sizes.begin(), sizes.end());
  return {.median = Median(sizes),
          .p90 = sizes[(sizes.size() - 1) * 9 / 10],
          .median_sign = Median(errors)};
}

// One operation among members of nodes, by any number of tables.
struct Group {
  std::vector<const MeasuredTable*> tables;
  std::map<uint64_t, std::vector<double>> us;  // by size
};
using Key = std::tuple<std::string, int64_t, int64_t>;  // operation, ranks, hosts

std::string PlaceOf(const MeasuredTable& table) {
  return fmt::format("log '{}', line {}", table.file, table.line);
}

absl::Status CheckTable(const MeasuredTable& table) {
  std::set<uint64_t> sizes;
  for (const MeasuredTable::Row& row : table.rows)
    sizes.insert(row.bytes);
  if (sizes.size() >= kLeastSizes && *sizes.rbegin() >= kLeastSpan * *sizes.begin())
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: {} sizes from {} to {} bytes do not determine latency and "
                  "bandwidth; measure "
                  "with -b 8 -e 8G -f 2",
                  PlaceOf(table), sizes.size(), *sizes.begin(), *sizes.rbegin()));
}

// Whether the two are of sites that differ.
absl::Status CheckSameSite(const MeasuredTable& one, const MeasuredTable& other) {
  std::map<uint64_t, double> us;
  for (const MeasuredTable::Row& row : one.rows)
    us[row.bytes] = row.us;
  std::vector<double> ratios;
  for (const MeasuredTable::Row& row : other.rows)
    if (const auto found = us.find(row.bytes); found != us.end())
      ratios.push_back(row.us / found->second);
  if (ratios.empty())
    return absl::OkStatus();
  const double ratio = Median(ratios);
  if (ratio < kOtherSite && ratio > 1 / kOtherSite)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} and {}: both are {} of {} ranks on {} hosts, and one takes "
                  "{:.1f} times as long "
                  "as the other: these are two sites, or one was misconfigured; "
                  "calibrate each alone",
                  PlaceOf(one), PlaceOf(other), one.operation, one.ranks, one.hosts,
                  std::max(ratio, 1 / ratio)));
}

struct Point {
  uint64_t bytes = 0;
  double us = 0, modelled_us = 0;
  double factor() const { return us / modelled_us; }
};

FittedCurve Fit(const Key& key, const Group& group, const std::vector<Point>& points) {
  const auto& [operation, ranks, hosts] = key;
  FittedCurve fitted;
  fitted.operation = operation;
  fitted.curve.set_transfer(operation == kTransfer);
  if (operation != kTransfer)
    fitted.curve.set_operation(Find(operation).operation);
  fitted.curve.set_members(static_cast<uint32_t>(ranks));
  fitted.curve.set_nodes(static_cast<uint32_t>(hosts));
  for (const MeasuredTable* table : group.tables) {
    if (fitted.files.empty() || fitted.files.back() != table->file)
      fitted.files.push_back(table->file);
    fitted.rows += table->rows.size();
  }
  std::vector<double> before, left_out;
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    auto* row = fitted.curve.add_point();
    row->set_bytes(point.bytes);
    row->set_factor(std::round(point.factor() * 1e4) / 1e4);
    before.push_back(point.modelled_us / point.us - 1);
    if (i == 0 || i + 1 == points.size())
      continue;
    // As MeasuredFactors interpolates.
    const Point &low = points[i - 1], &high = points[i + 1];
    const auto log = [](uint64_t bytes) {
      return std::log(static_cast<double>(bytes));
    };
    const double at =
        (log(point.bytes) - log(low.bytes)) / (log(high.bytes) - log(low.bytes));
    const double factor = low.factor() + (high.factor() - low.factor()) * at;
    left_out.push_back(factor / point.factor() - 1);
  }
  fitted.before = SpreadOf(before);
  fitted.left_out = SpreadOf(left_out);
  return fitted;
}

std::vector<std::string> FindUndetermined(const std::vector<FittedCurve>& curves) {
  std::vector<std::string> rows;
  for (const bool inside : {true, false}) {
    std::vector<std::string> base;
    for (const std::string& name : NcclTestsOperations()) {
      std::vector<std::string> measured;
      for (const FittedCurve& one : curves)
        if (one.operation == name && (one.curve.nodes() == 1) == inside)
          measured.push_back(inside
                                 ? fmt::format("{} members", one.curve.members())
                                 : fmt::format("{} members on {} nodes",
                                               one.curve.members(), one.curve.nodes()));
      if (measured.empty())
        base.push_back(name);
      else
        rows.push_back(fmt::format("{} {}: measured with {}; others follow the nearest",
                                   name, inside ? "inside a node" : "between nodes",
                                   fmt::join(measured, ", ")));
    }
    if (!base.empty())
      rows.push_back(fmt::format("{}: the base's times for {}",
                                 inside ? "inside a node" : "between nodes",
                                 fmt::join(base, ", ")));
  }
  rows.emplace_back(
      "making communicators, their memory, and links that operations share");
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> SpreadMembers(const ClusterDescription& cluster,
                                                   int64_t members, int64_t nodes) {
  const int64_t per_node = RanksPerNode(cluster);
  if (nodes < 1 || members < 2 || members % nodes != 0 || members / nodes > per_node)
    return absl::InvalidArgumentError(fmt::format(
        "{} members do not fit on {} nodes of {} ranks", members, nodes, per_node));
  std::vector<int32_t> ranks;
  for (int64_t i = 0; i < members; ++i)
    ranks.push_back(
        static_cast<int32_t>(i / (members / nodes) * per_node + i % (members / nodes)));
  return ranks;
}

Prediction Predict(const AlphaBetaNetwork& network, const std::string& operation,
                   const std::vector<int32_t>& members, uint64_t bytes) {
  if (operation == kTransfer) {
    const int64_t per_node = RanksPerNode(network.cluster());
    const auto next = std::find_if(members.begin(), members.end(), [&](int32_t rank) {
      return rank / per_node != members[0] / per_node;
    });
    const int32_t to = next == members.end() ? members[1] : *next;
    return {network.Transfer(bytes, members[0], to).duration.nanoseconds(), "transfer"};
  }
  const Operation& found = Find(operation);
  CollectiveCall call;
  call.operation = found.kind;
  call.type = ElementType::kUint8;
  call.count = found.is_total ? bytes / members.size() : bytes;
  return {network.Collective(call, members).duration.nanoseconds(),
          network.AlgorithmName(call, members)};
}

absl::StatusOr<Calibration> Calibrate(const ClusterDescription& base,
                                      const std::vector<MeasuredTable>& tables) {
  std::map<Key, Group> groups;
  for (const MeasuredTable& table : tables) {
    RETURN_IF_ERROR(CheckTable(table));
    Group& group = groups[{table.operation, table.ranks, table.hosts}];
    for (const MeasuredTable* other : group.tables)
      RETURN_IF_ERROR(CheckSameSite(*other, table));
    group.tables.push_back(&table);
    for (const MeasuredTable::Row& row : table.rows)
      group.us[row.bytes].push_back(row.us);
  }
  ClusterDescription plain = base;
  plain.clear_measured();
  const AlphaBetaNetwork network(plain);
  Calibration result;
  for (const auto& [key, group] : groups) {
    const auto& [operation, ranks, hosts] = key;
    const auto members = SpreadMembers(plain, ranks, hosts);
    if (!members.ok())
      return absl::InvalidArgumentError(fmt::format(
          "{}: {}; choose a --cluster whose nodes are as yours",
          PlaceOf(*group.tables.front()), std::string(members.status().message())));
    std::vector<Point> points;
    for (const auto& [bytes, us] : group.us)
      points.push_back(
          {.bytes = bytes,
           .us = Median(us),
           .modelled_us =
               static_cast<double>(Predict(network, operation, *members, bytes).ns) /
               1e3});
    result.curves.push_back(Fit(key, group, points));
  }
  result.undetermined = FindUndetermined(result.curves);
  return result;
}

std::string CalibratedText(const std::string& base_text, const std::string& name,
                           const Calibration& calibration) {
  std::string text;
  for (const absl::string_view line : absl::StrSplit(base_text, '\n'))
    text += absl::StartsWith(line, "name:") ? fmt::format("name: \"{}\"\n", name)
                                            : std::string(line) + "\n";
  while (text.ends_with("\n\n"))
    text.pop_back();
  text += "\n# Measured at the site, by nccl-tests.\n";
  for (const FittedCurve& fitted : calibration.curves) {
    const MeasuredCurve& curve = fitted.curve;
    text += fmt::format(
        "# {}: {} rows. Sizes of the errors before, median and p90: {:.0f}, {:.0f} %; "
        "of "
        "sizes left out {:.1f}, {:.1f} %.\n",
        fmt::join(fitted.files, ", "), fitted.rows, 100 * fitted.before.median,
        100 * fitted.before.p90, 100 * fitted.left_out.median,
        100 * fitted.left_out.p90);
    text += fmt::format(
        "measured {{\n  {} members: {} nodes: {}\n",
        curve.transfer()
            ? "transfer: true"
            : fmt::format("operation: {}", ClusterOperation_Name(curve.operation())),
        curve.members(), curve.nodes());
    for (const MeasuredCurve::Point& point : curve.point())
      text += fmt::format("  point {{ bytes: {} factor: {} }}\n", point.bytes(),
                          point.factor());
    text += "}\n";
  }
  return text;
}

}  // namespace vrank::graph
