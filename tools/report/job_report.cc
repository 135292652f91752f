#include "tools/report/job_report.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/decision_log.h"
#include "emulator/session/rank_exit.h"
#include "emulator/world/world.h"
#include "graph/models/kernel_costs.h"
#include "tools/job/run_provenance.h"
#include "tools/machine/machine_gpus.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

constexpr size_t kAssumedNamed = 3;

RankReport MakeRank(const emulator::World& world, int32_t rank) {
  RankReport report;
  const graph::RankResult result = world.engine().result(rank);
  report.rank = rank;
  report.iterations = world.results().iterations(rank);
  report.end_ns = result.end.ns;
  report.waited_ns = result.host_waited.nanoseconds();
  report.peak_bytes = result.peak_memory_bytes;
  report.peak_context_bytes = result.peak_context_bytes;
  report.peak_communicator_bytes = result.peak_communicator_bytes;
  return report;
}

std::vector<std::pair<std::string, emulator::KernelTotal>> HostTimes(
    const emulator::WorkTotals& totals, const emulator::KernelTotal& creations) {
  std::vector<std::pair<std::string, emulator::KernelTotal>> rows(totals.host.begin(),
                                                                  totals.host.end());
  if (creations.count != 0)
    rows.emplace_back("creating communicators", creations);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.time_ns > b.second.time_ns;
  });
  return rows;
}

void AddTimedIterations(const emulator::TimedIterations& timed,
                        const emulator::RealRank& real, RankReport* rank,
                        IterationSource* source) {
  LOG_DECISION(iterations, 1, "rank {}: {} iterations by {}, regularity {}{}",
               real.rank(), timed.iterations.size(), graph::Name(timed.evidence),
               timed.regularity, timed.complete ? "" : ", of the beginning alone");
  rank->iterations.clear();
  for (const emulator::TimedIteration& iteration : timed.iterations) {
    LOG_DECISION(iterations, 2, "rank {}: ops {} to {}, {} to {} ns", real.rank(),
                 iteration.bounds.first_op, iteration.bounds.last_op,
                 iteration.begin.ns, iteration.end.ns);
    rank->iterations.push_back({iteration.begin, iteration.end});
    rank->iteration_bounds.push_back(iteration.bounds);
    const auto& [first_op, last_op] = iteration.bounds;
    rank->host_cpu_ns.push_back(real.host_cpu().Between(first_op, last_op));
    rank->allocated_by_iteration.push_back(
        real.allocator_log().Before(last_op + 1).allocated);
    rank->host_runs_ahead |= iteration.host_runs_ahead();
  }
  source->complete &= timed.complete;
  if (timed.iterations.empty())
    return;
  source->evidence = timed.evidence;
  source->regularity = std::min(source->regularity, timed.regularity);
}

graph::IterationSearch SearchOf(const Job& job) {
  if (job.flags().iteration_range.has_value())
    return graph::IterationSearch::kAnnotations;
  return job.real_gpu() ? graph::IterationSearch::kCommunication
                        : graph::IterationSearch::kActions;
}

void AddRanks(const Run& run, graph::IterationSearch search, JobReport* report) {
  const emulator::World& world = run.session().world();
  std::map<std::pair<std::string, graph::Source>, emulator::KernelTotal> kernels;
  for (const auto& real : world.real()) {
    RankReport rank = MakeRank(world, real->rank());
    rank.real = true;
    AddTimedIterations(real->iteration_log().Find(search), *real, &rank,
                       &report->iteration_source);
    if (!rank.iterations.empty())
      rank.gpu_time = real->gpu_activity().Between(rank.iterations.back().begin.ns,
                                                   rank.iterations.back().end.ns);
    rank.allocator = real->allocator_log().Peak();
    rank.peak_contents =
        ContentsOfPeak(real->peak_blocks(), real->program(), rank.iteration_bounds);
    rank.host_cpu_children_ns = real->host_cpu().children_ns();
    if (const auto* governor = real->decoder().governor(); governor != nullptr) {
      rank.clock_khz = governor->clock_khz();
      rank.highest_clock_khz = governor->highest_khz();
    }
    const emulator::WorkTotals totals = real->decoder().Totals();
    rank.flops = totals.flops;
    rank.device_bytes = totals.bytes;
    rank.communication = world.results().communication(real->rank());
    rank.host = HostTimes(totals, world.creations(real->rank()));
    const auto exit = run.session().exits().find(real->rank());
    if (exit != run.session().exits().end())
      rank.exit = exit->second;
    const std::vector<int32_t>& lost = run.session().lost();
    rank.lost = std::find(lost.begin(), lost.end(), real->rank()) != lost.end();
    for (const auto& [key, total] : totals.kernels) {
      emulator::KernelTotal& row = kernels[{graph::Demangle(key.first), key.second}];
      row.count += total.count;
      row.time_ns += total.time_ns;
      row.unseen_ns += total.unseen_ns;
    }
    report->ranks.push_back(std::move(rank));
  }
  for (const auto& [key, total] : kernels)
    report->kernels.push_back(
        KernelRow{key.first, key.second, total.count, total.time_ns, total.unseen_ns});
  std::stable_sort(report->kernels.begin(), report->kernels.end(),
                   [](const KernelRow& a, const KernelRow& b) {
                     return a.weight_ns() > b.weight_ns();
                   });
  for (const emulator::VirtualRank& rank : run.virtual_ranks()) {
    switch (rank.part) {
      case emulator::VirtualRank::Part::kFollower:
        ++report->followers;
        break;
      case emulator::VirtualRank::Part::kRecorded:
        ++report->recorded;
        break;
      case emulator::VirtualRank::Part::kAbsent:
        ++report->absent;
        continue;
    }
    report->ranks.push_back(MakeRank(world, rank.rank));
  }
}

std::optional<JobReport::RankZero> FollowersOfRankZero(const Run& run,
                                                       const JobReport& report) {
  const bool waits =
      std::any_of(report.ranks.begin(), report.ranks.end(), [](const auto& rank) {
        return rank.real && rank.rank == 0 && rank.waited_ns > 0;
      });
  JobReport::RankZero zero;
  std::set<int32_t> real = {0};
  for (const RankReport& rank : report.ranks)
    if (rank.real)
      real.insert(rank.rank);
  for (const emulator::VirtualRank& rank : run.virtual_ranks())
    if (rank.part == emulator::VirtualRank::Part::kFollower && rank.leader == 0 &&
        zero.followers++ == 0)
      real.insert(rank.rank);
  if (!waits || zero.followers == 0)
    return std::nullopt;
  zero.real.assign(real.begin(), real.end());
  return zero;
}

UnknownReads ReadsOf(const emulator::World& world, LossId loss,
                     const JobReport& report) {
  UnknownReads reads;
  for (const RankReport& rank : report.ranks) {
    const auto first = rank.real ? world.FirstOf(rank.rank, loss) : std::nullopt;
    if (!first.has_value())
      continue;
    for (const auto& [key, count] : world.TotalLosses(rank.rank))
      if (key.first == static_cast<uint32_t>(loss) &&
          std::exchange(reads.count, reads.count + count) == 0) {
        reads.rank = rank.rank;
        std::tie(reads.kernel, reads.reason) = SplitReason(DemangleAll(first->name));
        const auto at = std::find_if(
            rank.iteration_bounds.begin(), rank.iteration_bounds.end(),
            [&](const auto& bounds) {
              return bounds.first_op <= first->op && first->op <= bounds.last_op;
            });
        if (at != rank.iteration_bounds.end())
          reads.iteration = static_cast<size_t>(at - rank.iteration_bounds.begin());
      }
  }
  return reads;
}

// The median of what is known after the first, which has the start of libraries in it;
// of a single one, that. nullopt: nothing is known.
template <class Amounts, class AmountOf>
std::optional<int64_t> Typical(const Amounts& amounts, AmountOf amount_of) {
  std::vector<int64_t> known;
  for (size_t i = amounts.size() > 1 ? 1 : 0; i < amounts.size(); ++i)
    if (const std::optional<int64_t> amount = amount_of(amounts[i]))
      known.push_back(*amount);
  if (known.empty())
    return std::nullopt;
  const auto middle = known.begin() + static_cast<ptrdiff_t>(known.size() / 2);
  std::nth_element(known.begin(), middle, known.end());
  return *middle;
}

// What is played takes about as long as it takes here, also if it was recorded on
// another machine: not this much longer. Both numbers are choices.
constexpr double kOtherProgram = 1.5;
constexpr int64_t kLeastOtherNs = 1'000'000;

// What rank `real` computes in an iteration of `iteration_ns` that is not played.
std::vector<HostBound> BoundsOf(const emulator::RealRank& real, const RankReport& rank,
                                const HostTimeReport& host, int64_t iteration_ns) {
  using protocol::HostTime;
  std::vector<HostBound> bounds;
  const auto add = [&](int64_t cpu_ns) -> HostBound& {
    HostBound& bound = bounds.emplace_back();
    bound.rank = rank.rank;
    bound.cpu_ns = cpu_ns;
    bound.iteration_ns = iteration_ns;
    return bound;
  };
  const bool played = host.mode != HostTime::kModelled;
  const auto exceeds_what_is_played = [iteration_ns](int64_t cpu_ns) {
    return static_cast<double>(cpu_ns) >
               kOtherProgram * static_cast<double>(iteration_ns) &&
           cpu_ns > iteration_ns + kLeastOtherNs;
  };
  const auto process_ns =
      Typical(rank.host_cpu_ns, [](const std::optional<int64_t>& ns) { return ns; });
  if (!played && process_ns)
    add(*process_ns);
  std::vector<std::pair<uint64_t, uint64_t>> iterations;
  for (const auto& [first_op, last_op] : rank.iteration_bounds)
    iterations.emplace_back(first_op, last_op);
  for (const auto& team : real.thread_cpu().ByIteration(iterations)) {
    const auto cpu_ns =
        static_cast<int64_t>(static_cast<double>(team.cpu_ns) * 1e6 /
                             static_cast<double>(host.speed_millionths));
    if (team.issues) {
      if (host.mode == HostTime::kRecorded && exceeds_what_is_played(cpu_ns))
        add(cpu_ns).of = HostBound::Of::kIssuers;
    } else if (team.in_child ? !played || exceeds_what_is_played(cpu_ns) : played) {
      HostBound& bound = add(cpu_ns);
      bound.of = HostBound::Of::kThreads;
      bound.threads = team.name;
      bound.count = team.threads;
      bound.in_child = team.in_child;
    }
  }
  return bounds;
}

void AddHostBound(const emulator::World& world, JobReport* report) {
  auto iteration_ns = Typical(report->iteration_time_ns,
                              [](int64_t ns) { return std::optional<int64_t>(ns); });
  if (!iteration_ns)
    return;
  // Batches of several workers come together, and a loader may stand between ranges.
  iteration_ns = std::max(*iteration_ns, report->mean_step_ns.value_or(0));
  for (const auto& real : world.real())
    for (const RankReport& rank : report->ranks) {
      if (rank.rank != real->rank())
        continue;
      for (HostBound& bound : BoundsOf(*real, rank, report->host_time, *iteration_ns))
        if (bound.cpu_ns > *iteration_ns &&
            (!report->host_bound || bound.cpu_ns > report->host_bound->cpu_ns))
          report->host_bound = std::move(bound);
    }
}

HostTimeReport MakeHostTime(const Job& job, const Run& run) {
  const HostTimePlan& plan = job.host_time();
  HostTimeReport report{plan.mode, plan.speed_millionths, plan.cpu, {}};
  if (plan.mode == protocol::HostTime::kRecorded)
    report.gaps_found = GapsFound(run, std::nullopt);
  return report;
}

// A rank's memory is short where its GPU is full, whichever rank has filled it.
void AddSharedGpus(const emulator::GpuMemory& memory, JobReport* report) {
  report->shared_gpus = memory.SharedPeaks();
  for (const emulator::GpuMemory::Peak& gpu : report->shared_gpus)
    for (const emulator::GpuMemory::Share& share : gpu.shares)
      for (RankReport& rank : report->ranks) {
        if (rank.rank != share.rank || rank.peak_bytes > gpu.bytes)
          continue;
        rank.peak_bytes = gpu.bytes;
        rank.peak_context_bytes = share.bytes[1];
        rank.peak_communicator_bytes = share.bytes[2];
        rank.peak_other_bytes = gpu.bytes - share.total();
      }
}

// The iterations of the job, and the ledger of the rank that ends last.
void AddTimes(const Run& run, JobReport* report) {
  const bool by_real_ranks =
      std::any_of(report->ranks.begin(), report->ranks.end(),
                  [](const RankReport& rank) { return rank.host_runs_ahead; });
  const RankReport* last = nullptr;
  for (const RankReport& rank : report->ranks) {
    if (by_real_ranks && !rank.real)
      continue;
    const size_t count = rank.iterations.size();
    if (report->iteration_time_ns.size() < count)
      report->iteration_time_ns.resize(count);
    for (size_t i = 0; i < count; ++i)
      report->iteration_time_ns[i] =
          std::max(report->iteration_time_ns[i],
                   rank.iterations[i].end.ns - rank.iterations[i].begin.ns);
    const auto key = [](const RankReport& r) {
      return std::tuple(!r.iterations.empty(),
                        r.iterations.empty() ? r.end_ns : r.iterations.back().end.ns);
    };
    if (last == nullptr || key(*last) < key(rank))
      last = &rank;
  }
  if (last == nullptr)
    return;
  if (const size_t count = last->iterations.size(); count > 1) {
    // Without the first one, if others are left.
    const size_t first = count > 2 ? 1 : 0;
    const auto steps = static_cast<int64_t>(count - 1 - first);
    int64_t between_ns = 0;
    for (size_t i = first + 1; i < count; ++i)
      between_ns += std::max<int64_t>(
          last->iterations[i].begin.ns - last->iterations[i - 1].end.ns, 0);
    report->between_iterations_ns = between_ns / steps;
    report->mean_step_ns =
        (last->iterations.back().end.ns - last->iterations[first].end.ns) / steps;
  }
  for (const emulator::Iteration& iteration : last->iterations)
    report->iteration_ledgers.push_back(MakeLedger(iteration.begin, iteration.end));
  if (last->iterations.empty())
    report->ledger = MakeLedger(graph::Stamp{},
                                run.session().world().engine().result(last->rank).end);
  else
    report->ledger =
        MakeLedger(last->iterations.front().begin, last->iterations.back().end);
}

}  // namespace

std::optional<AllocatorGrowth> GrowthOf(
    const std::vector<uint64_t>& allocated_by_iteration) {
  size_t first = allocated_by_iteration.size();
  while (first > 1 &&
         allocated_by_iteration[first - 1] > allocated_by_iteration[first - 2])
    --first;
  const size_t growing = allocated_by_iteration.size() - first;
  if (growing < kLeastGrowing)
    return std::nullopt;
  // The median: state that is created once is no growth.
  std::vector<uint64_t> steps;
  for (size_t i = first; i < allocated_by_iteration.size(); ++i)
    steps.push_back(allocated_by_iteration[i] - allocated_by_iteration[i - 1]);
  const auto median = steps.begin() + static_cast<ptrdiff_t>(growing / 2);
  std::nth_element(steps.begin(), median, steps.end());
  return AllocatorGrowth{first, *median};
}

bool JobReport::RanOutOfMemory() const {
  return !failure.empty() && is_short_of_memory;
}

const RankReport* JobReport::HighestPeak() const {
  const auto highest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
  return highest == ranks.end() ? nullptr : &*highest;
}

std::string JobReport::ComparesAll() const {
  return fmt::format("`vrank trace --ranks 0-{}`, then `vrank build`", world_size - 1);
}

const emulator::GpuMemory::Peak* JobReport::HighestSharedPeak() const {
  const auto highest =
      std::max_element(shared_gpus.begin(), shared_gpus.end(),
                       [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  const RankReport* const rank = HighestPeak();
  const bool is_highest = highest != shared_gpus.end() && rank != nullptr &&
                          highest->bytes >= rank->peak_bytes;
  return is_highest ? &*highest : nullptr;
}

namespace {

void AddLostRanks(JobReport* report) {
  for (const RankReport& rank : report->ranks)
    if (rank.lost)
      report->losses.push_back(LossRow{
          "lost_rank",
          fmt::format("rank {} {} at {}", rank.rank, emulator::DescribeExit(rank.exit),
                      FormatTime(rank.end_ns)),
          1,
          "the job went on without the rank (--survive-failures): its times and "
          "memory are up to then, and that moment is one of real time"});
}

// Not among the losses of a rank: its trace is the same whatever else connected.
void AddForeignConnections(const emulator::Session& session, JobReport* report) {
  for (const auto& [kind, count] : session.foreign_connections())
    report->losses.push_back(
        LossRow{"foreign_connections", kind, count,
                "connections to vrank's sockets that were no rank's were closed; the "
                "ranks did not notice"});
}

}  // namespace

JobReport MakeReport(const Job& job, const Run& run) {
  const emulator::World& world = run.session().world();
  JobReport report;
  report.world_size = job.world_size();
  report.layout = job.layout().ToString();
  report.gpu = job.real_gpu() ? NameMachineGpus() : job.gpu().short_name;
  report.cluster = job.cluster_name();
  report.real_gpu = job.real_gpu();
  report.provenance = ProvenanceOf(job, run);
  report.device_memory_bytes = job.gpu().properties.memory_bytes;
  AddRanks(run, SearchOf(job), &report);
  report.rank_zero = FollowersOfRankZero(run, report);
  if (!job.real_gpu())
    AddSharedGpus(world.MemoryOfGpus(), &report);
  AddTimes(run, &report);
  report.host_time = MakeHostTime(job, run);
  if (!job.real_gpu())
    AddHostBound(world, &report);
  report.collectives = world.results().Collectives();
  report.losses = MakeLosses(run, std::nullopt);
  report.copied_objects = run.session().gloo_bytes().copied_objects;
  for (const auto& rank : world.real()) {
    report.copied_objects += rank->copied_objects();
    report.is_short_of_memory |= rank->decoder().is_short_of_memory();
  }
  report.unknown_sizes = ReadsOf(world, LossId::kUnknownSizes, report);
  report.unknown_conditions = ReadsOf(world, LossId::kUnknownDecisions, report);
  AddLostRanks(&report);
  AddForeignConnections(run.session(), &report);
  report.nodes = world.engine().ops();
  report.assumed_arrivals = world.engine().assumed_arrivals();
  for (const auto& rank : report.ranks)
    report.divergences += world.engine().result(rank.rank).divergences;
  return report;
}

std::string NameOfGpu(const emulator::GpuMemory::Peak& gpu) {
  return fmt::format("GPU {} of node {}", gpu.device, gpu.node);
}

absl::Status CheckSharedGpus(const JobReport& report) {
  for (const emulator::GpuMemory::Peak& gpu : report.shared_gpus) {
    if (gpu.bytes <= static_cast<int64_t>(report.device_memory_bytes))
      continue;
    std::string holders;
    for (const emulator::GpuMemory::Share& share : gpu.shares)
      holders +=
          fmt::format("{}rank {} {}{}", holders.empty() ? "" : ", ", share.rank,
                      FormatBytes(static_cast<double>(share.total())),
                      share.is_real ? "" : " (not real, as the rank that it follows)");
    return absl::ResourceExhaustedError(fmt::format(
        "{} runs out of memory at {}: of {} the ranks that use it want {} ({}). A rank "
        "uses another one's GPU without torch.cuda.set_device, by a tensor on cuda:0, "
        "or by a checkpoint that is loaded without map_location",
        NameOfGpu(gpu), FormatTime(gpu.ns),
        FormatBytes(static_cast<double>(report.device_memory_bytes)),
        FormatBytes(static_cast<double>(gpu.bytes)), holders));
  }
  return absl::OkStatus();
}

std::vector<const KernelRow*> AssumedKernels(const JobReport& report) {
  std::vector<const KernelRow*> rows;
  for (const KernelRow& kernel : report.kernels)
    if (kernel.source == graph::Source::kAssumed)
      rows.push_back(&kernel);
  return rows;
}

absl::Status CheckAssumed(const std::optional<double>& max_assumed,
                          const JobReport& report) {
  const double share = report.ledger.Share(report.ledger.assumed_work_ns);
  if (!max_assumed.has_value() || share <= *max_assumed)
    return absl::OkStatus();
  const std::vector<const KernelRow*> kernels = AssumedKernels(report);
  std::string named;
  for (size_t i = 0; i < std::min(kernels.size(), kAssumedNamed); ++i) {
    named += (i == 0 ? ": " : ", ") + kernels[i]->name;
    if (kernels[i]->unseen_ns > 0)
      named += fmt::format(" (up to {} {})", FormatTime(kernels[i]->weight_ns()),
                           kIfItReadsAll);
  }
  if (kernels.size() > kAssumedNamed)
    named += fmt::format(" and {} more", kernels.size() - kAssumedNamed);
  return absl::FailedPreconditionError(fmt::format(
      "{} of the critical path is work whose time is assumed, --max-assumed allows "
      "{}{}; describe the kernels in a cost file (--kernels)",
      FormatPercent(share), FormatPercent(*max_assumed), named));
}

}  // namespace vrank::tools
