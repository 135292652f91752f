#include "graph/what_if/edited_job.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/communication_kernel.h"
#include "base/status_macros.h"
#include "graph/models/kernel_costs.h"
#include "graph/schema/lane_gaps.h"
#include "graph/what_if/edited_network.h"
#include "graph/what_if/iteration_times.h"

namespace vrank::graph {
namespace {

constexpr char kSendRecv[] = "send_recv";

EditableJob::Name NameOf(const std::string& name) {
  EditableJob::Name result;
  result.is_gap = name == kUnexplainedGapName;
  result.is_latency = name == kLaunchLatencyName;
  result.name = Demangle(name);
  if (const auto operation = CommunicationOperation(name)) {
    result.communication = std::string(*operation);
    if (result.communication == "send" || result.communication == "receive" ||
        result.communication == "send_receive")
      result.communication = kSendRecv;
  }
  result.family = QualifiedName(result.name);
  if (result.family.empty())
    result.family = result.name;
  return result;
}

// Of work without a name, by its class.
const EditableJob::Name& UnnamedWork(WorkClass work) {
  static const auto* const copy =
      new EditableJob::Name{"copy", "copy", "", false, false};
  static const auto* const memset =
      new EditableJob::Name{"memset", "memset", "", false, false};
  static const auto* const kernel =
      new EditableJob::Name{"kernel", "kernel", "", false, false};
  return work == WorkClass::kCopy     ? *copy
         : work == WorkClass::kMemset ? *memset
                                      : *kernel;
}

// REQUIRES: op.kind == kWork
const EditableJob::Name& NameOfWork(const EditableJob::Source& source, const Op& op) {
  return op.a != 0 && op.a < source.names.size() ? source.names[op.a]
                                                 : UnnamedWork(op.work);
}

bool IsCallback(const EditableJob::Source& source, const Op& op) {
  if (op.kind != OpKind::kHostFunc)
    return false;
  return op.a >= source.names.size() ||
         (!source.names[op.a].is_gap && !source.names[op.a].is_latency);
}

// The first op that belongs to iterations; what is ahead of them places the rank's
// start beside the others'.
uint64_t FirstOp(const EditableJob::Source& source) {
  return source.bounds.empty() ? 0 : source.bounds.front().first_op;
}

// Samples, and of how many ranks each is.
class Samples {
 public:
  void Add(int64_t ns, uint64_t weight) {
    samples_.emplace_back(ns, weight);
    all_ += weight;
  }
  int64_t Value(bool mean) { return mean ? Mean() : Median(); }
  int64_t Mean() const {
    double sum_ns = 0;
    for (const auto& [ns, weight] : samples_)
      sum_ns += static_cast<double>(ns) * static_cast<double>(weight);
    return all_ == 0 ? 0 : std::llround(sum_ns / static_cast<double>(all_));
  }
  // Sorts: the lower one of the two in the middle.
  int64_t Median() {
    std::sort(samples_.begin(), samples_.end());
    uint64_t below = 0;
    for (const auto& [ns, weight] : samples_) {
      below += weight;
      if (2 * below >= all_)
        return ns;
    }
    return 0;
  }

 private:
  std::vector<std::pair<int64_t, uint64_t>> samples_;
  uint64_t all_ = 0;
};

// An op by what is like it: its kind and name, of how many in the iteration, the how
// many-th.
struct Like {
  uint32_t kind = 0, name = 0, count = 0, place = 0;
  friend bool operator==(const Like&, const Like&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Like& like) {
    return H::combine(std::move(h), like.kind, like.name, like.count, like.place);
  }
};

// Ranks that read one program, as far as it is edited.
struct Part {
  const EditableJob::Source* source = nullptr;
  std::vector<uint32_t> places;
  std::shared_ptr<std::vector<Op>> ops;  // nullptr: those of the source

  const Op* begin() const { return ops != nullptr ? ops->data() : source->ops; }
  uint64_t size() const { return source->program->size(); }
  std::vector<Op>& Own() {
    if (ops == nullptr)
      ops = std::make_shared<std::vector<Op>>(source->ops, source->ops + size());
    return *ops;
  }
};

// Calls `visit(index, like)` for each op of `part`'s iterations that `identify` gives
// an identity (kind, name).
template <typename Identify, typename Visit>
void VisitLike(const Part& part, const Identify& identify, const Visit& visit) {
  const Op* const ops = part.begin();
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, std::pair<uint32_t, uint32_t>>
      counts;
  for (const IterationBounds& bounds : part.source->bounds) {
    counts.clear();
    const uint64_t end = std::min(bounds.last_op + 1, part.size());
    for (uint64_t i = bounds.first_op; i < end; ++i)
      if (const auto identity = identify(ops[i]))
        ++counts[*identity].first;
    for (uint64_t i = bounds.first_op; i < end; ++i) {
      const auto identity = identify(ops[i]);
      if (!identity)
        continue;
      auto& [count, place] = counts[*identity];
      visit(i, Like{identity->first, identity->second, count, place++});
    }
  }
}

using Identity = std::optional<std::pair<uint32_t, uint32_t>>;

// Works are like by class and name.
auto WorkIdentity(const EditableJob::Source& source) {
  return [&source](const Op& op) -> Identity {
    if (op.kind != OpKind::kWork)
      return std::nullopt;
    const uint32_t name = op.a < source.name_id.size() ? source.name_id[op.a] : 0;
    return std::pair(static_cast<uint32_t>(op.work), name);
  };
}

// Host times are like by what the host comes to.
auto HostIdentity(const EditableJob::Source& source) {
  return [&source](const Op& op) -> Identity {
    if (op.from_helper != 0)
      return std::nullopt;
    const bool named = op.kind == OpKind::kWork || op.kind == OpKind::kHostFunc ||
                       op.kind == OpKind::kRangeBegin || op.kind == OpKind::kRangeEnd;
    const uint32_t name =
        named && op.a < source.name_id.size() ? source.name_id[op.a] : 0;
    return std::pair(static_cast<uint32_t>(op.kind), name);
  };
}

class Editor {
 public:
  explicit Editor(const EditableJob& base) : base_(base) {
    for (const EditableJob::Source& source : base.sources())
      parts_.push_back({&source, source.places, nullptr});
    out_.network = &base.network();
    latency_ns_ = base.job().job.options.launch_latency.nanoseconds();
  }

  absl::Status Apply(const WhatIf& edit) {
    nodes_ = {};
    switch (edit.subject) {
      case WhatIf::Subject::kKernel:
        ScaleKernels(edit);
        break;
      case WhatIf::Subject::kBusiestStream:
        ScaleBusiestStreams(edit);
        break;
      case WhatIf::Subject::kCommunication:
        ScaleCommunication(edit);
        break;
      case WhatIf::Subject::kHost:
        RETURN_IF_ERROR(EditHost(edit));
        break;
      case WhatIf::Subject::kGaps:
        ScaleHostFuncs(edit, &EditableJob::Name::is_gap);
        break;
      case WhatIf::Subject::kLaunchLatency:
        ScaleLatency(edit);
        break;
      case WhatIf::Subject::kStragglers:
        EvenOut(edit);
        break;
    }
    if (nodes_.nodes == 0)
      return NothingMatched(edit);
    // The sums of a replay stay in range.
    if (nodes_.after_ns > std::max(nodes_.before_ns, kLongestNs))
      return absl::InvalidArgumentError(
          fmt::format("--what-if '{}': all that it changes then takes longer than 36 "
                      "years; give a smaller factor",
                      edit.text));
    out_.nodes.push_back(nodes_);
    return absl::OkStatus();
  }

  absl::StatusOr<EditedJob> Finish() {
    out_.job = base_.job();
    out_.job.job.options.launch_latency = Duration::Nanoseconds(latency_ns_);
    std::map<const Program*, ProgramUse> uses;
    for (const Part& part : parts_) {
      const Program* const original = part.source->program;
      // A Program notes where its readers are, so that each replay needs its own.
      out_.programs.push_back(
          std::make_unique<Program>(std::span<const Op>(part.begin(), part.size()),
                                    original->details(), part.ops));
      Program* const program = out_.programs.back().get();
      for (const uint32_t place : part.places)
        out_.job.job.ranks[place].program = program;
      uses[program] = base_.job().uses.at(original);
    }
    out_.job.uses = std::move(uses);
    return std::move(out_);
  }

 private:
  // The op at `index` of `part` takes `ns`, kWork and kHostFunc.
  void SetValue(Part& part, uint64_t index, int64_t ns, double unseen_factor) {
    const Op& op = part.begin()[index];
    Count(part, op.value, ns, op.source);
    if (ns == op.value)
      return;
    Op& own = part.Own()[index];
    own.value = ns;
    own.source = Source::kAssumed;
    if (own.kind == OpKind::kWork)
      own.b = static_cast<uint32_t>(std::min<double>(
          std::numeric_limits<uint32_t>::max(), std::round(own.b * unseen_factor)));
  }
  void SetHost(Part& part, uint64_t index, int64_t ns) {
    const Op& op = part.begin()[index];
    Count(part, op.host_ns, ns, op.host_source);
    if (ns == op.host_ns)
      return;
    Op& own = part.Own()[index];
    own.host_ns = ns;
    own.host_source = Source::kAssumed;
  }
  void Count(const Part& part, int64_t before_ns, int64_t after_ns, Source source) {
    Add(part.places.size(), static_cast<double>(before_ns),
        static_cast<double>(after_ns), source);
  }
  void Add(uint64_t nodes, double before_ns, double after_ns, Source source) {
    const auto count = static_cast<double>(nodes);
    nodes_.nodes += nodes;
    nodes_.changed += before_ns == after_ns ? 0 : nodes;
    nodes_.before_ns += count * before_ns;
    nodes_.after_ns += count * after_ns;
    if (source == Source::kAssumed)
      nodes_.assumed_ns += count * before_ns;
  }

  void ScaleKernels(const WhatIf& edit) {
    for (Part& part : parts_) {
      std::vector<bool> matches;
      for (const EditableJob::Name& name : part.source->names)
        matches.push_back(Matches(edit.name, name));
      for (uint64_t i = 0; i < part.size(); ++i) {
        const Op& op = part.begin()[i];
        if (op.kind != OpKind::kWork)
          continue;
        if (op.a != 0 && op.a < matches.size()
                ? matches[op.a]
                : Matches(edit.name, UnnamedWork(op.work)))
          SetValue(part, i, ScaleTime(op.value, edit.factor), edit.factor);
      }
    }
  }
  // Of each rank, the work without communication that shares a lane.
  void ScaleBusiestStreams(const WhatIf& edit) {
    for (Part& part : parts_) {
      const auto computes = [&](const Op& op) {
        return op.kind == OpKind::kWork &&
               NameOfWork(*part.source, op).communication.empty();
      };
      std::map<uint32_t, double> busy_ns;  // by lane
      for (uint64_t i = 0; i < part.size(); ++i)
        if (const Op& op = part.begin()[i]; computes(op))
          busy_ns[op.lane] += static_cast<double>(op.value);
      if (busy_ns.empty())
        continue;
      const uint32_t busiest = std::max_element(busy_ns.begin(), busy_ns.end(),
                                                [](const auto& a, const auto& b) {
                                                  return a.second < b.second;
                                                })
                                   ->first;
      for (uint64_t i = 0; i < part.size(); ++i)
        if (const Op& op = part.begin()[i]; op.lane == busiest && computes(op))
          SetValue(part, i, ScaleTime(op.value, edit.factor), edit.factor);
    }
  }
  static bool Matches(const std::string& glob, const EditableJob::Name& name) {
    return name.communication.empty() &&
           (GlobMatches(glob, name.name) || GlobMatches(glob, name.family));
  }

  void ScaleHostFuncs(const WhatIf& edit, bool EditableJob::Name::*which) {
    for (Part& part : parts_)
      for (uint64_t i = 0; i < part.size(); ++i) {
        const Op& op = part.begin()[i];
        if (op.kind == OpKind::kHostFunc && op.a < part.source->names.size() &&
            part.source->names[op.a].*which)
          SetValue(part, i, ScaleTime(op.value, edit.factor), 1);
      }
  }

  // Each launch has the job's latency; imported ones have their own beyond it.
  void ScaleLatency(const WhatIf& edit) {
    ScaleHostFuncs(edit, &EditableJob::Name::is_latency);
    const int64_t before_ns = latency_ns_;
    if (before_ns == 0)
      return;
    latency_ns_ = ScaleTime(before_ns, edit.factor);
    for (const Part& part : parts_) {
      const auto launches = static_cast<uint64_t>(
          std::count_if(part.begin(), part.begin() + part.size(),
                        [](const Op& op) { return op.launch != 0; }));
      Add(launches * part.places.size(), static_cast<double>(before_ns),
          static_cast<double>(latency_ns_), Source::kModelled);
    }
  }

  void ScaleCommunication(const WhatIf& edit) {
    for (Part& part : parts_)
      for (uint64_t i = 0; i < part.size(); ++i) {
        const Op& op = part.begin()[i];
        if (op.kind != OpKind::kWork)
          continue;
        const std::string& operation = NameOfWork(*part.source, op).communication;
        if (!operation.empty() && (edit.name.empty() || edit.name == operation))
          SetValue(part, i, ScaleTime(op.value, edit.factor), edit.factor);
      }
    Wrap(std::make_unique<ScaledNetwork>(out_.network, edit.name, edit.factor),
         edit.name);
  }

  // Counts what the model around the present one changes; empty: any operation.
  void Wrap(std::unique_ptr<NetworkModel> outer, const std::string& operation) {
    const NetworkModel& inner = *out_.network;
    const ResolvedJob& job = base_.job();
    for (const CommunicatorInstance& instance : job.instances) {
      const std::vector<int32_t> members = base_.MembersOf(instance);
      for (const auto& [call, times] : base_.CallsOf(instance)) {
        if (!operation.empty() && operation != Name(call.operation))
          continue;
        const Cost before = inner.Collective(call, members);
        AddCosts(times * members.size(), before, outer->Collective(call, members));
      }
    }
    if (operation.empty() || operation == kSendRecv)
      for (const Part& part : parts_)
        for (const uint32_t place : part.places)
          for (const auto& [use, times] : part.source->transfers)
            AddTransfers(place, *part.source->program, use, times, inner, *outer);
    out_.networks.push_back(std::move(outer));
    out_.network = out_.networks.back().get();
  }
  void AddTransfers(uint32_t place, const Program& program,
                    std::pair<uint32_t, uint32_t> use, uint64_t times,
                    const NetworkModel& inner, const NetworkModel& outer) {
    const ResolvedJob& job = base_.job();
    const auto binding = job.bindings[place].find(use.first);
    if (binding == job.bindings[place].end())
      return;
    const CommunicatorInstance& instance = job.instances[binding->second.instance];
    const uint32_t shift = job.PeerShift(place, use.first);
    const int32_t own = job.job.ranks[place].world_rank;
    Cost before, after;  // of the dearest of the group
    for (const Transfer& transfer : program.details().transfer_groups[use.second]) {
      const uint32_t index =
          PeerIndex(transfer, shift, static_cast<uint32_t>(instance.members.size()));
      const int32_t peer = job.job.ranks[instance.members[index]].world_rank;
      const int32_t from = transfer.is_send != 0 ? own : peer;
      const int32_t to = transfer.is_send != 0 ? peer : own;
      const Cost cost = inner.Transfer(transfer.bytes, from, to);
      if (cost.duration >= before.duration) {
        before = cost;
        after = outer.Transfer(transfer.bytes, from, to);
      }
    }
    AddCosts(times, before, after);
  }
  void AddCosts(uint64_t nodes, const Cost& before, const Cost& after) {
    Add(nodes, static_cast<double>(before.duration.nanoseconds()),
        static_cast<double>(after.duration.nanoseconds()), before.source);
  }

  absl::Status EditHost(const WhatIf& edit) {
    if (edit.rank >= 0)
      RETURN_IF_ERROR(Separate(edit));
    if (edit.change != WhatIf::Change::kScale)
      return HostAsItsLike(edit);
    for (Part& part : parts_) {
      if (!Concerns(edit, part))
        continue;
      for (uint64_t i = FirstOp(*part.source); i < part.size(); ++i) {
        const Op& op = part.begin()[i];
        if (op.host_ns > 0)
          SetHost(part, i, ScaleTime(op.host_ns, edit.factor));
        if (IsCallback(*part.source, op))
          SetValue(part, i, ScaleTime(op.value, edit.factor), 1);
      }
    }
    return absl::OkStatus();
  }
  bool Concerns(const WhatIf& edit, const Part& part) const {
    return edit.rank < 0 ||
           (part.places.size() == 1 && WorldRank(part.places.front()) == edit.rank);
  }
  int32_t WorldRank(uint32_t place) const {
    return base_.job().job.ranks[place].world_rank;
  }

  // The rank of the edit reads a program of its own from now on.
  absl::Status Separate(const WhatIf& edit) {
    const auto place = base_.job().place_of.find(edit.rank);
    if (place == base_.job().place_of.end())
      return absl::InvalidArgumentError(
          fmt::format("--what-if '{}': the job has ranks 0 to {}", edit.text,
                      base_.job().job.ranks.size() - 1));
    for (Part& part : parts_) {
      const auto own = std::find(part.places.begin(), part.places.end(), place->second);
      if (own == part.places.end() || part.places.size() == 1)
        continue;
      part.places.erase(own);
      Part alone{part.source, {place->second}, nullptr};
      if (part.ops != nullptr)
        alone.ops = std::make_shared<std::vector<Op>>(*part.ops);
      parts_.push_back(std::move(alone));
      break;
    }
    return absl::OkStatus();
  }

  absl::Status HostAsItsLike(const WhatIf& edit) {
    absl::flat_hash_map<Like, Samples> samples;
    for (const Part& part : parts_)
      VisitLike(part, HostIdentity(*part.source), [&](uint64_t i, const Like& like) {
        samples[like].Add(part.begin()[i].host_ns, part.places.size());
      });
    absl::flat_hash_map<Like, int64_t> typical;
    for (auto& [like, own] : samples)
      typical[like] = own.Value(edit.change == WhatIf::Change::kMean);
    for (Part& part : parts_)
      if (Concerns(edit, part))
        VisitLike(part, HostIdentity(*part.source), [&](uint64_t i, const Like& like) {
          const int64_t typical_ns = typical.at(like);
          if (part.begin()[i].host_ns != 0 || typical_ns != 0)
            SetHost(part, i, typical_ns);
        });
    return absl::OkStatus();
  }

  void EvenOut(const WhatIf& edit) {
    absl::flat_hash_map<Like, Samples> samples;
    for (const Part& part : parts_)
      VisitLike(part, WorkIdentity(*part.source), [&](uint64_t i, const Like& like) {
        samples[like].Add(part.begin()[i].value, part.places.size());
      });
    // By whether the work computes: what communicates takes the median in any case.
    absl::flat_hash_map<Like, std::pair<int64_t, int64_t>> typical;
    for (auto& [like, own] : samples)
      typical[like] = {own.Median(), own.Value(edit.change == WhatIf::Change::kMean)};
    for (Part& part : parts_)
      VisitLike(part, WorkIdentity(*part.source), [&](uint64_t i, const Like& like) {
        const bool computes =
            NameOfWork(*part.source, part.begin()[i]).communication.empty();
        const auto& [median_ns, computing_ns] = typical.at(like);
        SetValue(part, i, computes ? computing_ns : median_ns, 1);
      });
    std::map<LikeCollective, Samples> recorded;
    for (const CommunicatorInstance& instance : base_.job().instances) {
      const std::vector<int32_t> members = base_.MembersOf(instance);
      for (const auto& [call, times] : base_.CallsOf(instance))
        if (call.recorded_ns != 0)
          recorded[LikeCollective::Of(call, members)].Add(
              static_cast<int64_t>(call.recorded_ns), times);
    }
    std::map<LikeCollective, uint64_t> like;
    for (auto& [call, own] : recorded)
      like[call] = static_cast<uint64_t>(own.Median());
    if (!like.empty())
      Wrap(std::make_unique<MedianNetwork>(out_.network, std::move(like)), "");
  }

  absl::Status NothingMatched(const WhatIf& edit) const {
    std::string why = "nothing of it is in the graph";
    std::set<std::string> names;
    if (edit.subject == WhatIf::Subject::kKernel) {
      for (const Part& part : parts_)
        for (uint64_t i = 0; i < part.size(); ++i)
          if (const Op& op = part.begin()[i]; op.kind == OpKind::kWork)
            if (const auto& name = NameOfWork(*part.source, op);
                name.communication.empty())
              names.insert(name.family);
      why = "it matches the whole name of no kernel, copy or memset of the graph";
    } else if (edit.subject == WhatIf::Subject::kCommunication) {
      for (const CommunicatorInstance& instance : base_.job().instances)
        for (const auto& [call, times] : base_.CallsOf(instance))
          names.insert(Name(call.operation));
      for (const Part& part : parts_) {
        if (!part.source->transfers.empty())
          names.insert(kSendRecv);
        for (uint64_t i = 0; i < part.size(); ++i)
          if (const Op& op = part.begin()[i]; op.kind == OpKind::kWork)
            if (const auto& name = NameOfWork(*part.source, op);
                !name.communication.empty())
              names.insert(name.communication);
      }
      why = "the graph has no such operation";
    }
    constexpr size_t kNearest = 3;
    const std::vector<std::string> nearest = NearestNames(
        edit.name, std::vector<std::string>(names.begin(), names.end()), kNearest);
    return absl::InvalidArgumentError(
        fmt::format("--what-if '{}': {}{}{}", edit.text, why,
                    nearest.empty() ? "" : "; nearest: ", fmt::join(nearest, ", ")));
  }

  const EditableJob& base_;
  std::vector<Part> parts_;
  EditedJob out_;
  EditedNodes nodes_;  // of the edit at hand
  int64_t latency_ns_ = 0;
};

}  // namespace

EditableJob::EditableJob(const ResolvedJob* job, const NetworkModel* network,
                         const std::function<bool(const std::string&)>& is_iteration,
                         const std::vector<bool>& absent)
    : job_(job), network_(network) {
  std::map<const Program*, size_t> source_of;
  for (uint32_t place = 0; place < job->job.ranks.size(); ++place) {
    const ReplayJob::Rank& rank = job->job.ranks[place];
    const auto [at, added] = source_of.try_emplace(rank.program, sources_.size());
    if (added) {
      sources_.emplace_back();
      sources_.back().program = rank.program;
      sources_.back().bounds = BoundsOf(*rank.program, is_iteration);
    }
    sources_[at->second].places.push_back(place);
  }
  std::map<std::string, uint32_t> ids{{"", 0}};
  for (Source& source : sources_) {
    const Program& program = *source.program;
    if (program.size() != 0 && program.ChunkEnd(0) == program.size()) {
      source.ops = &program.op(0);
    } else {
      for (uint64_t i = 0; i < program.size(); ++i)
        source.copied.push_back(program.op(i));
      source.ops = source.copied.data();
    }
    for (const std::string& name : program.details().names) {
      source.names.push_back(NameOf(name));
      source.name_id.push_back(
          ids.try_emplace(name, static_cast<uint32_t>(ids.size())).first->second);
    }
    for (uint64_t i = 0; i < program.size(); ++i)
      if (const Op& op = source.ops[i]; op.kind == OpKind::kTransfers)
        ++source.transfers[{op.a, op.b}];
  }
  for (const std::vector<CollectiveCall>& sequence : job->sequences) {
    calls_.emplace_back();
    for (const CollectiveCall& call : sequence)
      ++calls_.back()[call];
  }
  bounds_.resize(job->job.ranks.size());
  for (const Source& source : sources_)
    for (const uint32_t place : source.places) {
      const auto rank = static_cast<size_t>(job->job.ranks[place].world_rank);
      if (rank >= absent.size() || !absent[rank])
        bounds_[place] = &source.bounds;
    }
}

absl::StatusOr<EditedJob> EditableJob::Edit(const std::vector<WhatIf>& edits) const {
  Editor editor(*this);
  for (const WhatIf& edit : edits)
    RETURN_IF_ERROR(editor.Apply(edit));
  return editor.Finish();
}

absl::StatusOr<std::vector<int64_t>> EditableJob::IterationTimes(
    const EditedJob& edited) const {
  return ReplayIterationTimes(edited.job, *edited.network, bounds_);
}

std::vector<int32_t> EditableJob::MembersOf(
    const CommunicatorInstance& instance) const {
  std::vector<int32_t> members;
  for (const uint32_t place : instance.members)
    members.push_back(job_->job.ranks[place].world_rank);
  return members;
}

namespace {

WhatIf Free(WhatIf::Subject subject, const std::string& words) {
  WhatIf edit;
  edit.subject = subject;
  edit.factor = 0;
  edit.text = words;
  edit.text += " free";
  return edit;
}

// The longest first.
template <typename Key>
std::vector<Key> Longest(const std::map<Key, double>& time_ns, size_t most) {
  std::vector<std::pair<double, Key>> sorted;
  for (const auto& [key, ns] : time_ns)
    if (ns > 0)
      sorted.emplace_back(-ns, key);
  std::sort(sorted.begin(), sorted.end());
  std::vector<Key> keys;
  for (size_t i = 0; i < std::min(most, sorted.size()); ++i)
    keys.push_back(sorted[i].second);
  return keys;
}

}  // namespace

std::vector<WhatIf> EditableJob::Candidates(size_t most) const {
  std::map<std::string, double> families;
  std::map<int32_t, double> hosts;  // by rank
  std::set<std::string> operations;
  double gaps_ns = 0, latencies_ns = 0;
  for (const Source& source : sources_) {
    const auto ranks = static_cast<double>(source.places.size());
    double host_ns = 0;
    for (uint64_t i = 0; i < source.program->size(); ++i) {
      const Op& op = source.ops[i];
      if (i >= FirstOp(source))
        host_ns += static_cast<double>(op.host_ns);
      if (op.launch != 0)
        latencies_ns +=
            static_cast<double>(job_->job.options.launch_latency.nanoseconds());
      if (op.kind == OpKind::kWork) {
        const Name& name = NameOfWork(source, op);
        if (name.communication.empty())
          families[name.family] += ranks * static_cast<double>(op.value);
        else
          operations.insert(name.communication);
      } else if (op.kind == OpKind::kHostFunc && op.a < source.names.size()) {
        if (source.names[op.a].is_gap)
          gaps_ns += static_cast<double>(op.value);
        if (source.names[op.a].is_latency)
          latencies_ns += static_cast<double>(op.value);
      }
    }
    if (!source.transfers.empty())
      operations.insert(kSendRecv);
    for (const uint32_t place : source.places)
      if (place == source.places.front() && bounds_[place] != nullptr)
        hosts[job_->job.ranks[place].world_rank] = host_ns;
  }
  for (const CommunicatorInstance& instance : job_->instances)
    for (const auto& [call, times] : CallsOf(instance))
      operations.insert(graph::Name(call.operation));

  std::vector<WhatIf> edits;
  for (const std::string& family : Longest(families, most)) {
    std::string words = "kernel ";
    words += family;
    edits.push_back(Free(WhatIf::Subject::kKernel, words));
    edits.back().name = family;
  }
  for (const std::string& operation : operations) {
    if (operation == "communication")
      continue;  // kernels whose operation is not known: only all of it
    edits.push_back(Free(WhatIf::Subject::kCommunication, operation));
    edits.back().name = operation;
  }
  if (!operations.empty())
    edits.push_back(Free(WhatIf::Subject::kCommunication, "communication"));
  if (!Longest(hosts, 1).empty())
    edits.push_back(Free(WhatIf::Subject::kHost, "host"));
  for (const int32_t rank : Longest(hosts, hosts.size() > 1 ? most : 0)) {
    edits.push_back(Free(WhatIf::Subject::kHost, fmt::format("rank {} host", rank)));
    edits.back().rank = rank;
  }
  if (gaps_ns > 0)
    edits.push_back(Free(WhatIf::Subject::kGaps, "gaps"));
  if (latencies_ns > 0)
    edits.push_back(Free(WhatIf::Subject::kLaunchLatency, "launch_latency"));
  WhatIf stragglers;
  stragglers.text = "no stragglers";
  stragglers.subject = WhatIf::Subject::kStragglers;
  stragglers.change = WhatIf::Change::kMedian;
  if (!families.empty())
    edits.push_back(stragglers);
  return edits;
}

}  // namespace vrank::graph
