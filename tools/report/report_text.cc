#include "tools/report/report_text.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "tools/terminal/kernel_label.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

constexpr size_t kRanksShown = 16;
constexpr size_t kIterationsShown = 12;
constexpr size_t kKernelsShown = 6;
constexpr size_t kHostRowsShown = 6;
constexpr size_t kLaunchesShown = 2;
// A launch below this part of all is not shown.
constexpr uint64_t kLeastShareShown = 20;

std::string Head(const JobReport& report) {
  size_t real = 0;
  for (const RankReport& rank : report.ranks)
    real += rank.real ? 1 : 0;
  std::string text = fmt::format("{} rank{}: {} real",
                                 FormatCount(static_cast<uint64_t>(report.world_size)),
                                 report.world_size == 1 ? "" : "s", real);
  const auto part = [&text](size_t count, const char* what) {
    if (count > 0)
      text += fmt::format(", {} {}", FormatCount(count), what);
  };
  part(report.followers, "following them live");
  part(report.recorded, "playing a recorded program");
  part(report.absent, "assumed absent");
  text += fmt::format("\nlayout {} on {}, cluster {}\n", report.layout,
                      report.gpu.empty() ? "GPUs of an unknown kind" : report.gpu,
                      report.cluster);
  if (report.real_gpu)
    text +=
        "clock: the real ranks' own, on this machine's GPUs; only NCCL is emulated\n";
  return text;
}

// What passes between iterations is shown from this share of one on. A choice.
constexpr double kShownBetween = 0.05;

// Nothing where the program annotates its iterations.
std::string HowFound(const IterationSource& source) {
  std::string text;
  if (source.evidence == graph::IterationEvidence::kOptimizer)
    text = "  found by parameter updates";
  if (source.evidence == graph::IterationEvidence::kPeriod)
    text = "  found by what repeats";
  if (source.evidence == graph::IterationEvidence::kCommunication)
    text = "  found by the collectives that repeat";
  if (!text.empty())
    text += fmt::format("; {} alike", FormatPercent(source.regularity));
  if (!source.complete)
    text += "; later ones were not looked for";
  return text;
}

// The cause itself stands on stderr.
std::string Failure(const JobReport& report) {
  if (report.failure.empty())
    return "";
  const std::string first_line = report.failure.substr(0, report.failure.find('\n'));
  return fmt::format(
      "incomplete  the job did not get to its end; this is what it did until then: "
      "{}\n",
      Shortened(first_line));
}

std::string Iterations(const JobReport& report) {
  const auto& times = report.iteration_time_ns;
  if (times.empty() && report.real_gpu)
    return "iterations  none: no NVTX range is named like one, and no collectives of "
           "gradients repeat; put each step between "
           "torch.cuda.nvtx.range_push(\"iteration\") and range_pop(), or name its "
           "NVTX ranges with --iteration-range\n";
  if (times.empty())
    return "iterations  none: no range of the program is named like one, and nothing "
           "that "
           "it does repeats; name its NVTX ranges with --iteration-range\n";
  Table table;
  for (size_t i = 0; i < std::min(times.size(), kIterationsShown); ++i)
    table.Add({fmt::format("{}", i + 1), FormatTime(times[i]),
               i == 0 && times.size() > 1 && times[0] > times[1]
                   ? "with the first use of communicators and memory"
                   : ""});
  std::string text =
      "iteration" + HowFound(report.iteration_source) + "\n" + table.ToString(2);
  if (times.size() > kIterationsShown)
    text += fmt::format("  and {} more; the last took {}\n",
                        times.size() - kIterationsShown, FormatTime(times.back()));
  if (static_cast<double>(report.between_iterations_ns.value_or(0)) >
      kShownBetween * static_cast<double>(times.back()))
    text += fmt::format(
        "  from one to the next {} pass (mean), which no row counts: what the "
        "program "
        "does outside of them\n",
        FormatTime(*report.between_iterations_ns));
  return text;
}

// "each of 2 processes 'pt_data_worker' that it started".
std::string ThreadsOf(const HostBound& bound) {
  const std::string_view where =
      bound.in_child ? "that it started" : "beside those that issue work";
  const std::string_view kind = bound.in_child ? "process" : "thread";
  if (bound.count == 1)
    return fmt::format("{} '{}' {}", kind, bound.threads, where);
  return fmt::format("each of {} {}{} '{}' {}", bound.count, kind,
                     bound.in_child ? "es" : "s", bound.threads, where);
}

// The predicted time leaves out what it names; the reader has to see it first.
std::string LowerBound(const JobReport& report) {
  if (!report.host_bound)
    return "";
  const HostBound& bound = *report.host_bound;
  if (bound.of == HostBound::Of::kThreads)
    return fmt::format(
        "lower bound rank {}: {} used at least {} of CPU per iteration on this "
        "machine, which --host-time does not count: an iteration takes longer than the "
        "{} predicted\n",
        bound.rank, ThreadsOf(bound), FormatTime(bound.cpu_ns),
        FormatTime(bound.iteration_ns));
  if (bound.of == HostBound::Of::kIssuers)
    return fmt::format(
        "lower bound rank {}'s threads that issue work computed {} per iteration "
        "between their calls on this machine, and the recording has less than the {} "
        "predicted: it is of another "
        "program or version (--record-host-time FILE makes a new one)\n",
        bound.rank, FormatTime(bound.cpu_ns), FormatTime(bound.iteration_ns));
  return fmt::format(
      "lower bound rank {}'s process used {} of CPU per iteration on this machine, and "
      "CPU time between calls takes no virtual time: an iteration takes longer than "
      "the {} predicted (--host-time measured counts it)\n",
      bound.rank, FormatTime(bound.cpu_ns), FormatTime(bound.iteration_ns));
}

// Of the real rank whose GPU is held back most.
std::string ClockLine(const JobReport& report) {
  const RankReport* slowest = nullptr;
  for (const RankReport& rank : report.ranks)
    if (rank.clock_khz < rank.highest_clock_khz &&
        (slowest == nullptr || rank.clock_khz < slowest->clock_khz))
      slowest = &rank;
  if (slowest == nullptr)
    return "";
  return fmt::format(
      "clock       {} of {} MHz (rank {}): the power limit holds matrix products "
      "back\n",
      slowest->clock_khz / 1000, slowest->highest_clock_khz / 1000, slowest->rank);
}

std::string Ranks(const JobReport& report) {
  Table table;
  std::vector<std::string> title = {"real rank", "ends at", "host waited"};
  if (!report.real_gpu) {
    title.insert(title.end(), {"peak memory", "program", "context", "NCCL"});
    if (!report.shared_gpus.empty())
      title.emplace_back("other ranks");
    title.emplace_back("computed");
  }
  table.Add(title);
  size_t shown = 0, real = 0;
  for (const RankReport& rank : report.ranks) {
    if (!rank.real)
      continue;
    ++real;
    if (shown == kRanksShown)
      continue;
    ++shown;
    std::vector<std::string> row = {fmt::format("{}", rank.rank),
                                    FormatTime(rank.end_ns),
                                    FormatTime(rank.waited_ns)};
    if (!report.real_gpu) {
      for (const int64_t bytes :
           {rank.peak_bytes, rank.peak_program_bytes(), rank.peak_context_bytes,
            rank.peak_communicator_bytes})
        row.push_back(FormatBytes(static_cast<double>(bytes)));
      if (!report.shared_gpus.empty())
        row.push_back(FormatBytes(static_cast<double>(rank.peak_other_bytes)));
      row.push_back(FormatFlops(static_cast<double>(rank.flops)));
    }
    table.Add(row);
  }
  std::string text = table.ToString(0);
  if (real > shown)
    text += fmt::format("  and {} more\n", real - shown);
  return text;
}

std::string MemoryLine(const JobReport& report) {
  const RankReport* highest = report.HighestPeak();
  if (highest == nullptr || report.real_gpu)
    return "";
  const auto device = static_cast<double>(report.device_memory_bytes);
  const auto peak = static_cast<double>(highest->peak_bytes);
  const auto* const shared = report.HighestSharedPeak();
  const std::string where =
      shared == nullptr ? fmt::format("rank {}", highest->rank) : NameOfGpu(*shared);
  return fmt::format("memory      {} at most ({}), of {}: {}\n", FormatBytes(peak),
                     where, FormatBytes(device),
                     report.RanOutOfMemory() ? "does not fit: more was wanted, and the "
                                               "job failed"
                     : peak <= device        ? "fits"
                                             : "does not fit");
}

std::string ContentsTable(const PeakContents& contents) {
  const auto cells = [&](std::string what, const PeakContents::Amount& amount) {
    const auto bytes = static_cast<double>(amount.bytes);
    return std::vector<std::string>{
        std::move(what), FormatCount(amount.blocks), FormatBytes(bytes),
        FormatPercent(bytes / static_cast<double>(contents.all.bytes))};
  };
  Table table;
  table.Add(
      {contents.iteration.has_value()
           ? fmt::format("allocated in iteration {}, taken", *contents.iteration + 1)
           : "allocated, taken",
       "blocks", "bytes", "share"});
  for (const PeakContents::Row& row : contents.rows) {
    table.Add(cells(WhenTaken(NameOf(row.part), row.kept), row.amount));
    for (size_t i = 0; i < std::min(row.launches.size(), kLaunchesShown); ++i)
      if (row.launches[i].amount.bytes >= contents.all.bytes / kLeastShareShown)
        table.Add(cells("  for " + KernelLabel(row.launches[i].name),
                        row.launches[i].amount));
  }
  return table.ToString(0);
}

// What PyTorch's users call memory, of the rank that has allocated the most.
std::string AllocatorLines(const JobReport& report) {
  const RankReport* most = nullptr;
  for (const RankReport& rank : report.ranks)
    if (most == nullptr || rank.allocator.allocated > most->allocator.allocated)
      most = &rank;
  if (most == nullptr || most->allocator.reserved == 0)
    return "";
  const auto bytes = [](uint64_t count) {
    return FormatBytes(static_cast<double>(count));
  };
  std::string text = fmt::format(
      "allocator   PyTorch has {} allocated, {} reserved at most (rank {})\n",
      bytes(most->allocator.allocated), bytes(most->allocator.reserved), most->rank);
  if (const auto growth = GrowthOf(most->allocated_by_iteration); growth.has_value())
    text += fmt::format(
        "grows       the most that is allocated, by {} per iteration since iteration "
        "{}\n",
        bytes(growth->bytes), growth->first_iteration + 1);
  if (most->peak_contents.has_value() && most->peak_contents->all.bytes != 0)
    text += ContentsTable(*most->peak_contents);
  return text;
}

std::string UncheckedLine(const JobReport& report) {
  const size_t ranks = report.unchecked();
  return ranks == 0
             ? ""
             : fmt::format(
                   "unchecked   faults on the {} virtual rank{}; {} "
                   "compare all ranks\n",
                   FormatCount(ranks), ranks == 1 ? "" : "s", report.ComparesAll());
}

std::string RankZeroLine(const JobReport& report) {
  if (!report.rank_zero.has_value())
    return "";
  const size_t followers = report.rank_zero->followers;
  return fmt::format(
      "repeated    by {} rank{}: also what rank 0 alone does, like waiting for a loss "
      "that it prints; with --real {} they follow another rank\n",
      FormatCount(followers), followers == 1 ? "" : "s",
      FormatRanks(report.rank_zero->real));
}

// GPUs of several ranks, the fullest first.
std::string SharedGpus(const JobReport& report) {
  constexpr size_t kGpusShown = 8;
  std::vector<const emulator::GpuMemory::Peak*> gpus;
  for (const emulator::GpuMemory::Peak& gpu : report.shared_gpus)
    gpus.push_back(&gpu);
  std::stable_sort(gpus.begin(), gpus.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  Table table;
  if (!gpus.empty())
    table.Add({"shared GPU", "rank", "peak memory", "program", "context", "NCCL"});
  for (size_t i = 0; i < std::min(gpus.size(), kGpusShown); ++i) {
    std::string name = NameOfGpu(*gpus[i]);
    if (gpus[i]->nodes > 1)
      name += fmt::format(", and of {} nodes like it", gpus[i]->nodes - 1);
    table.Add({name, "", FormatBytes(static_cast<double>(gpus[i]->bytes)), "", "", ""});
    for (const emulator::GpuMemory::Share& share : gpus[i]->shares) {
      const auto bytes = [](int64_t value) {
        return FormatBytes(static_cast<double>(value));
      };
      table.Add({"", fmt::format("{}{}", share.rank, share.is_real ? "" : ", not real"),
                 bytes(share.total()), bytes(share.bytes[0]), bytes(share.bytes[1]),
                 bytes(share.bytes[2])});
    }
  }
  std::string text = table.ToString(0);
  if (gpus.size() > kGpusShown)
    text += fmt::format("  and {} more\n", gpus.size() - kGpusShown);
  return text.empty() ? text : text + "\n";
}

std::string CommunicationTable(const JobReport& report) {
  for (const RankReport& rank : report.ranks) {
    if (!rank.real || rank.communication.empty())
      continue;
    Table table;
    table.Add({fmt::format("communication of rank {}", rank.rank), "calls", "bytes",
               "in flight"});
    for (const auto& [operation, total] : rank.communication)
      table.Add({operation, FormatCount(total.calls),
                 FormatBytes(static_cast<double>(total.bytes)),
                 FormatTime(total.time_ns)});
    return table.ToString(0);
  }
  return "";
}

// Of the real rank whose last iteration is longest.
std::string GpuTimeTable(const JobReport& report) {
  const RankReport* longest = nullptr;
  const auto length = [](const RankReport& rank) {
    const emulator::Iteration& last = rank.iterations.back();
    return last.end.ns - last.begin.ns;
  };
  for (const RankReport& rank : report.ranks)
    if (rank.gpu_time.has_value() &&
        (longest == nullptr || length(rank) > length(*longest)))
      longest = &rank;
  if (longest == nullptr || report.real_gpu || length(*longest) == 0)
    return "";
  const emulator::GpuTime& time = *longest->gpu_time;
  Table table;
  table.Add({fmt::format("GPU of rank {} in iteration {}", longest->rank,
                         longest->iterations.size()),
             "time", "share"});
  const auto add = [&](const char* what, int64_t ns) {
    if (ns != 0)
      table.Add({what, FormatTime(ns),
                 FormatPercent(static_cast<double>(ns) /
                               static_cast<double>(length(*longest)))});
  };
  add("computes", time.compute_ns);
  add("  and communicates meanwhile", time.overlapped_communication_ns);
  add("communicates alone", time.exposed_communication_ns);
  add("copies alone", time.copies_ns);
  add("idle", time.idle_ns);
  return table.ToString(0) + "\n";
}

// Shown where the host's time is a part of the critical path that matters: it is
// assumed, unless somebody stated it, or the program's own.
std::string HostTable(const JobReport& report) {
  constexpr double kWorthTelling = 0.005;
  if (report.ledger.Share(report.ledger.assumed_host_ns) < kWorthTelling &&
      report.host_time.mode == protocol::HostTime::kModelled)
    return "";
  for (const RankReport& rank : report.ranks) {
    if (!rank.real || rank.host.empty())
      continue;
    Table table;
    table.Add({fmt::format("host time of rank {}", rank.rank), "calls", "time"});
    for (size_t i = 0; i < std::min(rank.host.size(), kHostRowsShown); ++i)
      table.Add({rank.host[i].first, FormatCount(rank.host[i].second.count),
                 FormatTime(rank.host[i].second.time_ns)});
    return table.ToString(0);
  }
  return "";
}

// What the program takes itself, where it takes time.
std::string HostTimeLine(const HostTimeReport& host_time) {
  if (host_time.mode == protocol::HostTime::kModelled)
    return "";
  const double speed = static_cast<double>(host_time.speed_millionths) / 1e6;
  const std::string at_speed =
      speed == 1 ? "" : fmt::format(", at {:g} times its speed", speed);
  if (host_time.mode == protocol::HostTime::kMeasured)
    return fmt::format(
        "host time   CPU time between calls was measured on this machine{}\n",
        at_speed);
  uint64_t gaps = 0;
  for (const uint64_t found : host_time.gaps_found)
    gaps += found;
  const auto share = [&](uint64_t part) {
    return FormatPercent(
        gaps == 0 ? 0 : static_cast<double>(part) / static_cast<double>(gaps));
  };
  return fmt::format(
      "host time   CPU time between calls was recorded on {}{}: {} of {} gaps after "
      "the "
      "same eight calls, {} unknown\n",
      host_time.cpu, at_speed, share(host_time.gaps_found.front()), FormatCount(gaps),
      share(host_time.gaps_found.back()));
}

// A reason, with the name of a kernel to fit a table.
std::string WithLabel(std::string reason) {
  constexpr std::string_view kFrom = ", from ";
  if (const size_t from = reason.find(kFrom); from != std::string::npos) {
    const size_t begin = from + kFrom.size();
    const size_t length = std::min(reason.find(": ", begin), reason.size()) - begin;
    reason.replace(begin, length, KernelLabel(reason.substr(begin, length)));
  }
  return reason;
}

std::string FirstRead(const UnknownReads& reads) {
  return fmt::format(
      "first {}on rank {}, from {}{}\n",
      reads.iteration.has_value()
          ? fmt::format("in iteration {} ", *reads.iteration + 1)
          : "",
      reads.rank, KernelLabel(reads.kernel),
      reads.reason.empty() ? "" : fmt::format(" ({})", WithLabel(reads.reason)));
}

// The path of the program itself is not sure.
std::string DecisionLines(const JobReport& report) {
  std::string text;
  if (const UnknownReads& sizes = report.unknown_sizes; sizes.count != 0)
    text += fmt::format(
        "decided     by values that were not computed: {} size{} of tensors (nonzero, "
        "masks, unique), so that shapes, time and memory of what follows may be "
        "others; "
        "{}",
        FormatCount(sizes.count), sizes.count == 1 ? "" : "s", FirstRead(sizes));
  if (const UnknownReads& read = report.unknown_conditions; read.count != 0)
    text += fmt::format(
        "may decide  by values that were not computed: {} integer{} or truth value{} "
        "read before more work was issued; {}",
        FormatCount(read.count), read.count == 1 ? "" : "s", read.count == 1 ? "" : "s",
        FirstRead(read));
  return text;
}

// What the program makes of objects of every rank is not what all ranks would make.
std::string CopiedObjectsLine(const JobReport& report) {
  if (report.copied_objects == 0)
    return "";
  return fmt::format(
      "copied      {} object{} that real ranks gathered in place of virtual ranks' "
      "own: "
      "files made of such, as checkpoints of torch.distributed.checkpoint, may be "
      "incomplete; with --real 0-{} they are complete\n",
      FormatCount(report.copied_objects), report.copied_objects == 1 ? "" : "s",
      report.world_size - 1);
}

std::string Fidelity(const JobReport& report) {
  const Ledger& ledger = report.ledger;
  std::string text = fmt::format(
      "fidelity    {}{} modelled, {} assumed, {} recorded, {} measured of the critical "
      "path ({})\n",
      report.host_bound ? "lower bound; " : "",
      FormatPercent(ledger.Share(ledger.modelled_ns)),
      FormatPercent(ledger.Share(ledger.assumed_ns())),
      FormatPercent(ledger.Share(ledger.recorded_ns)),
      FormatPercent(ledger.Share(ledger.measured_ns)), FormatTime(ledger.total_ns));
  if (ledger.assumed_ns() > 0)
    text += fmt::format(
        "assumed     {} work on the GPU and the network, {} host time "
        "(calls: --host-cost; communicators: --cluster)\n",
        FormatPercent(ledger.Share(ledger.assumed_work_ns)),
        FormatPercent(ledger.Share(ledger.assumed_host_ns)));
  if (ledger.assumed_ns() > 0 && report.iteration_ledgers.size() > 1) {
    const Ledger& last = report.iteration_ledgers.back();
    text += fmt::format("  of the last iteration alone: {} work, {} host time\n",
                        FormatPercent(last.Share(last.assumed_work_ns)),
                        FormatPercent(last.Share(last.assumed_host_ns)));
  }
  text += HostTimeLine(report.host_time);
  text += HostTable(report);
  if (report.assumed_arrivals > 0)
    text += fmt::format(
        "assumed     {} arrivals of absent ranks, none of them late: times are lower "
        "bounds\n",
        FormatCount(report.assumed_arrivals));
  const std::vector<const KernelRow*> assumed = AssumedKernels(report);
  Table table;
  const bool any_unseen = !assumed.empty() && assumed.front()->unseen_ns > 0;
  if (!assumed.empty())
    table.Add({"kernels with an assumed time", "launches", "time",
               any_unseen ? kUnseenHead : ""});
  for (size_t i = 0; i < std::min(assumed.size(), kKernelsShown); ++i)
    table.Add({Shortened(assumed[i]->name), FormatCount(assumed[i]->count),
               FormatTime(assumed[i]->time_ns),
               assumed[i]->unseen_ns > 0 ? FormatTime(assumed[i]->weight_ns()) : ""});
  text += table.ToString(0);
  if (assumed.size() > kKernelsShown)
    text += fmt::format("  and {} more\n", assumed.size() - kKernelsShown);
  return text;
}

// What a table shows of a loss: rows that show the same are one.
struct ShownLoss {
  std::string name, subject, reason, meaning;
  uint64_t count = 0;
};

std::vector<ShownLoss> ShownLosses(const std::vector<LossRow>& losses) {
  constexpr std::string_view kOfKernels[] = {
      "computed_bytes_to_host",   "sizes_not_computed",
      "conditions_not_computed",  "made_up_choices",
      "kernel_arguments_unknown", "kernels_with_unknown_limits"};
  std::vector<ShownLoss> shown;
  for (const LossRow& loss : losses) {
    ShownLoss row{loss.name, Shortened(loss.subject), "", loss.meaning, loss.count};
    if (std::find(std::begin(kOfKernels), std::end(kOfKernels), loss.name) !=
        std::end(kOfKernels)) {
      const auto [kernel, reason] = SplitReason(loss.subject);
      row.subject = KernelLabel(kernel);
      row.reason = WithLabel(reason);
    }
    const auto same = std::find_if(shown.begin(), shown.end(), [&](const auto& other) {
      return other.name == row.name && other.subject == row.subject &&
             other.reason == row.reason;
    });
    if (same == shown.end())
      shown.push_back(std::move(row));
    else
      same->count += row.count;
  }
  return shown;
}

std::string Losses(const JobReport& report) {
  const std::vector<ShownLoss> losses = ShownLosses(report.losses);
  Table table;
  for (const ShownLoss& loss : losses)
    table.Add({loss.name + (loss.subject.empty() ? "" : " ") + loss.subject,
               FormatCount(loss.count)});
  std::string text = table.empty() ? "" : "losses\n";
  std::istringstream rows(table.ToString(2));
  std::string row;
  for (size_t i = 0; i < losses.size() && std::getline(rows, row); ++i) {
    text += row + "\n";
    if (!losses[i].reason.empty())
      text += fmt::format("    {}\n", losses[i].reason);
    // Once for each name, which may have many subjects.
    if (i + 1 == losses.size() || losses[i + 1].name != losses[i].name)
      text += fmt::format("    {}\n", losses[i].meaning);
  }
  if (report.divergences > 0)
    text += fmt::format(
        "  {} questions of programs (\"has it ended?\") would have had another "
        "answer\n",
        FormatCount(report.divergences));
  return text;
}

}  // namespace

std::string ReportText(const JobReport& report) {
  return Head(report) + LowerBound(report) + Failure(report) + "\n" +
         Iterations(report) + "\n" + Ranks(report) + "\n" + GpuTimeTable(report) +
         CommunicationTable(report) + "\n" + SharedGpus(report) + MemoryLine(report) +
         AllocatorLines(report) + UncheckedLine(report) + RankZeroLine(report) +
         ClockLine(report) + DecisionLines(report) + CopiedObjectsLine(report) +
         Fidelity(report) + Losses(report);
}

}  // namespace vrank::tools
