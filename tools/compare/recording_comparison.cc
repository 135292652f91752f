#include "tools/compare/recording_comparison.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace vrank::tools {
namespace {

class DifferenceList {
 public:
  // `where` is only asked for the largest.
  template <class Where>
  void Add(int64_t difference_ns, const Where& where) {
    const int64_t size = std::abs(difference_ns);
    if (size > largest_) {
      largest_ = size;
      largest_at_ = where();
    }
    sizes_.push_back(size);
  }
  Differences Sum() {
    Differences sum;
    sum.count = sizes_.size();
    sum.largest_ns = largest_;
    sum.largest_at = largest_at_;
    if (!sizes_.empty()) {
      const auto middle =
          sizes_.begin() + static_cast<std::ptrdiff_t>(sizes_.size() / 2);
      std::nth_element(sizes_.begin(), middle, sizes_.end());
      sum.median_ns = *middle;
    }
    return sum;
  }

 private:
  std::vector<int64_t> sizes_;
  int64_t largest_ = 0;
  std::string largest_at_;
};

bool HasRecordedEnd(graph::OpKind kind) {
  return kind == graph::OpKind::kWork || kind == graph::OpKind::kCollective;
}

// Of the work that an iteration issued, the latest end.
struct DeviceEnd {
  std::optional<int64_t> recorded_ns, replayed_ns;

  void Add(int64_t recorded, int64_t replayed) {
    recorded_ns = std::max(recorded_ns.value_or(recorded), recorded);
    replayed_ns = std::max(replayed_ns.value_or(replayed), replayed);
  }
  std::optional<int64_t> Difference() const {
    if (!recorded_ns)
      return std::nullopt;
    return *replayed_ns - *recorded_ns;
  }
};

// Whether `op` begins or ends the range of iteration `step`.
bool IsRangeOf(const graph::RecordedRank& recorded, size_t step,
               const graph::Program& program, const graph::Op& op) {
  return (op.kind == graph::OpKind::kRangeBegin ||
          op.kind == graph::OpKind::kRangeEnd) &&
         step < recorded.iterations.size() &&
         program.details().names[op.a] == recorded.iterations[step].name;
}

class Comparer {
 public:
  Comparer(const GraphReplay& replay, const graph::ReplayReport& report)
      : replay_(replay), timeline_(replay.timeline()), report_(report) {}

  absl::StatusOr<RecordingComparison> Run() {
    for (size_t place = 0; place < timeline_.ranks().size(); ++place)
      for (const int32_t rank : replay_.RanksLike(timeline_.ranks()[place].world_rank))
        place_of_[rank] = place;
    for (const graph::RankReport& one : report_.classes)
      for (const int32_t rank : replay_.RanksLike(one.rank))
        class_of_[rank] = &one;
    for (const graph::RecordedRank& rank : replay_.graph().recorded_ranks)
      if (absl::Status status = AddRank(rank); !status.ok())
        return status;
    for (const auto& [key, ends] : recorded_ends_) {
      const auto [earliest, latest] = std::minmax_element(ends.begin(), ends.end());
      noise_.Add(*latest - *earliest, [&] {
        return fmt::format("collective {} of '{}'", key.second,
                           timeline_.communicators()[key.first].identity);
      });
    }
    out_.collective_ends = collectives_.Sum();
    out_.collective_noise = noise_.Sum();
    out_.work_ends = works_.Sum();
    return std::move(out_);
  }

 private:
  absl::Status AddRank(const graph::RecordedRank& recorded) {
    const graph::PlayedRank& played = timeline_.ranks()[place_of_.at(recorded.rank)];
    const graph::Program& program = *played.program;
    size_t next = 0;
    std::vector<DeviceEnd> device_ends(recorded.iterations.size());
    size_t step = 0;  // of the ops; iterations follow one another
    bool in_step = false;
    for (uint64_t i = 0; i < program.size(); ++i) {
      const graph::Op& op = program.op(i);
      if (IsRangeOf(recorded, step, program, op)) {
        in_step = op.kind == graph::OpKind::kRangeBegin;
        step += in_step ? 0 : 1;
      }
      if (!HasRecordedEnd(op.kind))
        continue;
      if (next == recorded.ends_ns.size())
        break;
      const int64_t end_ns = recorded.ends_ns[next++];
      if (end_ns == graph::RecordedRank::kNoEnd)
        continue;
      AddEnd(played, recorded, i, end_ns);
      if (in_step)
        device_ends[step].Add(end_ns, played.times[i].end);
    }
    if (next != recorded.ends_ns.size())
      return absl::DataLossError(
          fmt::format("rank {}: {} ends were recorded, and its program has {}; import "
                      "it again",
                      recorded.rank, recorded.ends_ns.size(), next));
    const auto of_class = class_of_.find(recorded.rank);
    if (of_class == class_of_.end())
      return absl::OkStatus();
    const std::vector<graph::Iteration>& iterations = of_class->second->iterations;
    if (iterations.size() != recorded.iterations.size())
      return absl::InvalidArgumentError(
          fmt::format("rank {}: {} iterations were recorded, and the replay has {}; "
                      "compare without "
                      "--iteration-range",
                      recorded.rank, recorded.iterations.size(), iterations.size()));
    for (size_t i = 0; i < iterations.size(); ++i) {
      const graph::RecordedRank::Iteration& one = recorded.iterations[i];
      out_.iterations.push_back({recorded.rank, one.name, one.end_ns - one.begin_ns,
                                 iterations[i].length_ns(),
                                 iterations[i].end_ns - one.end_ns,
                                 device_ends[i].Difference()});
    }
    return absl::OkStatus();
  }

  void AddEnd(const graph::PlayedRank& played, const graph::RecordedRank& recorded,
              uint64_t index, int64_t recorded_ns) {
    const graph::Op& op = played.program->op(index);
    const int64_t difference = played.times[index].end - recorded_ns;
    const graph::Details& details = played.program->details();
    if (op.kind == graph::OpKind::kWork) {
      works_.Add(difference, [&] {
        return fmt::format("{} on rank {}", details.names[op.a], recorded.rank);
      });
      return;
    }
    const int32_t sequence = played.before[index].sequence;
    const uint32_t communicator = played.communicators.at(op.a).first;
    recorded_ends_[{communicator, sequence}].push_back(recorded_ns);
    collectives_.Add(difference, [&] {
      return fmt::format("collective {} of '{}' ({}) on rank {}", sequence,
                         timeline_.communicators()[communicator].identity,
                         graph::Name(details.collectives[op.b].operation),
                         recorded.rank);
    });
  }

  const GraphReplay& replay_;
  const graph::Timeline& timeline_;
  const graph::ReplayReport& report_;
  std::map<int32_t, size_t> place_of_;
  std::map<int32_t, const graph::RankReport*> class_of_;
  std::map<std::pair<uint32_t, int32_t>, std::vector<int64_t>> recorded_ends_;
  DifferenceList collectives_, noise_, works_;
  RecordingComparison out_;
};

}  // namespace

double RecordingComparison::Iteration::Error() const {
  return recorded_ns == 0 ? 0
                          : static_cast<double>(replayed_ns - recorded_ns) /
                                static_cast<double>(recorded_ns);
}

absl::StatusOr<RecordingComparison> CompareWithRecording(
    const GraphReplay& replay, const graph::ReplayReport& report) {
  if (replay.graph().recorded_ranks.empty())
    return absl::InvalidArgumentError(
        "--against-recording: the graph holds no recording; only graphs of `vrank "
        "import` do");
  return Comparer(replay, report).Run();
}

}  // namespace vrank::tools
