#include "tools/report/report_json.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/guest/anchor_history.h"
#include "emulator/session/rank_exit.h"
#include "tools/report/losses_json.h"

namespace vrank::tools {
namespace {

const char* Name(protocol::HostTime mode) {
  switch (mode) {
    case protocol::HostTime::kModelled:
      return "modelled";
    case protocol::HostTime::kMeasured:
      return "measured";
    case protocol::HostTime::kRecorded:
      break;
  }
  return "recorded";
}

// Keys stay in the order in which they are written.
using Json = nlohmann::ordered_json;

// Shares are told to six decimals: enough to read, few enough to compare.
const char* Name(HostBound::Of of) {
  switch (of) {
    case HostBound::Of::kProcess:
      return "process";
    case HostBound::Of::kThreads:
      return "threads";
    case HostBound::Of::kIssuers:
      return "recording";
  }
  return "";
}

double Rounded(double share) {
  return std::round(share * 1e6) / 1e6;
}

Json LedgerJson(const Ledger& ledger) {
  return Json{{"critical_path_ns", ledger.total_ns},
              {"measured", Rounded(ledger.Share(ledger.measured_ns))},
              {"recorded", Rounded(ledger.Share(ledger.recorded_ns))},
              {"modelled", Rounded(ledger.Share(ledger.modelled_ns))},
              {"assumed", Rounded(ledger.Share(ledger.assumed_ns()))},
              {"assumed_ns", ledger.assumed_ns()},
              {"assumed_work_ns", ledger.assumed_work_ns},
              {"assumed_host_ns", ledger.assumed_host_ns}};
}

Json TimesJson(const RankReport& rank) {
  Json times = Json::array();
  for (const emulator::Iteration& iteration : rank.iterations)
    times.push_back(iteration.end.ns - iteration.begin.ns);
  return times;
}

Json IterationSourceJson(const JobReport& report) {
  const IterationSource& source = report.iteration_source;
  if (report.iteration_time_ns.empty())
    return Json{{"evidence", nullptr}};
  return Json{{"evidence", graph::Name(source.evidence)},
              {"regularity", Rounded(source.regularity)},
              {"complete", source.complete}};
}

Json HostTimeJson(const HostTimeReport& host_time) {
  Json json{{"mode", Name(host_time.mode)}};
  if (host_time.mode == protocol::HostTime::kModelled)
    return json;
  json["speed"] = static_cast<double>(host_time.speed_millionths) / 1e6;
  if (host_time.gaps_found.empty())
    return json;
  json["cpu"] = host_time.cpu;
  Json found = Json::object();
  for (size_t i = 0; i < kAnchorDepths.size(); ++i)
    found[fmt::format("{}", kAnchorDepths[i])] = host_time.gaps_found[i];
  json["gaps_by_calls_before"] = found;
  json["gaps_unknown"] = host_time.gaps_found.back();
  return json;
}

Json ContentsJson(const std::optional<PeakContents>& contents) {
  if (!contents.has_value())
    return nullptr;
  const auto amount = [](const PeakContents::Amount& of) {
    return Json{{"blocks", of.blocks}, {"bytes", of.bytes}};
  };
  Json rows = Json::array();
  for (const PeakContents::Row& row : contents->rows) {
    Json launches = Json::array();
    for (const PeakContents::Launch& launch : row.launches) {
      launches.push_back(amount(launch.amount));
      launches.back()["kernel"] = launch.name;
    }
    rows.push_back(amount(row.amount));
    rows.back()["taken"] = NameOf(row.part);
    rows.back()["earlier_iteration"] = row.kept;
    rows.back()["launches"] = std::move(launches);
  }
  Json json = amount(contents->all);
  json["iteration"] = nullptr;
  if (contents->iteration.has_value())
    json["iteration"] = *contents->iteration + 1;
  json["rows"] = std::move(rows);
  return json;
}

Json AllocatorJson(const RankReport& rank) {
  if (rank.allocator.reserved == 0)
    return nullptr;
  return Json{{"peak_allocated_bytes", rank.allocator.allocated},
              {"peak_reserved_bytes", rank.allocator.reserved},
              {"peak_allocated_by_iteration_bytes", rank.allocated_by_iteration},
              {"peak_contents", ContentsJson(rank.peak_contents)}};
}

Json GpuTimeJson(const std::optional<emulator::GpuTime>& time) {
  if (!time.has_value())
    return nullptr;
  return Json{{"compute_ns", time->compute_ns},
              {"exposed_communication_ns", time->exposed_communication_ns},
              {"copies_ns", time->copies_ns},
              {"idle_ns", time->idle_ns},
              {"overlapped_communication_ns", time->overlapped_communication_ns}};
}

Json RealRankJson(const RankReport& rank, bool real_gpu) {
  Json ends = Json::array();
  for (const emulator::Iteration& iteration : rank.iterations)
    ends.push_back(iteration.end.ns);
  Json communication = Json::object();
  for (const auto& [operation, total] : rank.communication)
    communication[operation] = Json{
        {"calls", total.calls}, {"bytes", total.bytes}, {"time_ns", total.time_ns}};
  Json host = Json::object();
  for (const auto& [activity, total] : rank.host)
    host[activity] = Json{{"calls", total.count}, {"time_ns", total.time_ns}};
  Json json{{"rank", rank.rank},
            {"iteration_time_ns", TimesJson(rank)},
            {"iteration_end_ns", ends},
            {"end_ns", rank.end_ns},
            {"waited_ns", rank.waited_ns}};
  if (!real_gpu) {
    json["peak_memory_bytes"] = rank.peak_bytes;
    json["peak_memory_by_owner_bytes"] =
        Json{{"program", rank.peak_program_bytes()},
             {"context", rank.peak_context_bytes},
             {"communicators", rank.peak_communicator_bytes}};
    if (rank.peak_other_bytes != 0)
      json["peak_memory_by_owner_bytes"]["other_ranks"] = rank.peak_other_bytes;
    json["allocator"] = AllocatorJson(rank);
    json["last_iteration_gpu"] = GpuTimeJson(rank.gpu_time);
    if (rank.highest_clock_khz != 0)
      json["gpu_clock_khz"] = rank.clock_khz;
    json["flops"] = rank.flops;
    json["device_memory_traffic_bytes"] = rank.device_bytes;
  }
  json["communication"] = communication;
  json["host"] = host;
  json["host_cpu_ns"] = Json::array();
  for (const std::optional<int64_t>& ns : rank.host_cpu_ns)
    json["host_cpu_ns"].push_back(ns ? Json(*ns) : Json());
  json["host_cpu_children_ns"] = rank.host_cpu_children_ns;
  json["exit"] = Json{{"code", rank.exit.code}, {"signal", rank.exit.signal}};
  return json;
}

Json VirtualRankJson(const RankReport& rank, bool real_gpu) {
  Json json{{"rank", rank.rank}, {"iteration_time_ns", TimesJson(rank)}};
  if (!real_gpu)
    json["peak_memory_bytes"] = rank.peak_bytes;
  return json;
}

Json SharedGpusJson(const JobReport& report) {
  Json gpus = Json::array();
  for (const emulator::GpuMemory::Peak& gpu : report.shared_gpus) {
    Json ranks = Json::array();
    for (const emulator::GpuMemory::Share& share : gpu.shares)
      ranks.push_back(Json{{"rank", share.rank},
                           {"real", share.is_real},
                           {"program", share.bytes[0]},
                           {"context", share.bytes[1]},
                           {"communicators", share.bytes[2]}});
    gpus.push_back(
        Json{{"node", gpu.node},
             {"gpu", gpu.device},
             {"nodes", gpu.nodes},
             {"peak_bytes", gpu.bytes},
             {"at_ns", gpu.ns},
             {"fits", gpu.bytes <= static_cast<int64_t>(report.device_memory_bytes)},
             {"ranks", ranks}});
  }
  return gpus;
}

Json ReadsJson(const UnknownReads& reads) {
  Json json = {{"count", reads.count}, {"first", nullptr}};
  if (reads.count == 0)
    return json;
  json["first"] = Json{{"rank", reads.rank},
                       {"iteration", nullptr},
                       {"kernel", reads.kernel},
                       {"reason", reads.reason}};
  if (reads.iteration.has_value())
    json["first"]["iteration"] = *reads.iteration + 1;
  return json;
}

}  // namespace

std::string ReportJson(const JobReport& report, bool with_collectives) {
  Json json{{"schema", "vrank.emulate/1"},
            {"world_size", report.world_size},
            {"layout", report.layout},
            {"gpu", report.gpu.empty() ? Json() : Json(report.gpu)},
            {"cluster", report.cluster},
            {"clock", report.real_gpu ? "real" : "virtual"},
            {"iteration_time_ns", report.iteration_time_ns},
            {"between_iterations_ns", report.between_iterations_ns.has_value()
                                          ? Json(*report.between_iterations_ns)
                                          : Json()},
            {"iteration_source", IterationSourceJson(report)},
            {"failure", report.failure.empty() ? Json() : Json(report.failure)},
            {"provenance", ProvenanceJson(report.provenance)},
            {"nodes", report.nodes}};
  json["host_time"] =
      report.real_gpu ? Json{{"mode", "real"}} : HostTimeJson(report.host_time);
  json["host_bound"] = nullptr;
  if (report.host_bound)
    json["host_bound"] = Json{{"rank", report.host_bound->rank},
                              {"cpu_ns", report.host_bound->cpu_ns},
                              {"iteration_ns", report.host_bound->iteration_ns},
                              {"of", Name(report.host_bound->of)},
                              {"threads", report.host_bound->threads},
                              {"count", report.host_bound->count},
                              {"in_child", report.host_bound->in_child}};
  Json real = Json::array(), played = Json::array();
  for (const RankReport& rank : report.ranks)
    if (rank.real)
      real.push_back(RealRankJson(rank, report.real_gpu));
    else
      played.push_back(VirtualRankJson(rank, report.real_gpu));
  json["ranks"] = real;
  json["lost_ranks"] = Json::array();
  for (const RankReport& rank : report.ranks)
    if (rank.lost)
      json["lost_ranks"].push_back(Json{{"rank", rank.rank},
                                        {"how", emulator::DescribeExit(rank.exit)},
                                        {"end_ns", rank.end_ns}});
  json["virtual_ranks"] = played;
  json["played"] = Json{{"following", report.followers},
                        {"recorded", report.recorded},
                        {"absent", report.absent}};
  json["unchecked"] = nullptr;
  if (report.unchecked() > 0)
    json["unchecked"] =
        Json{{"ranks", report.unchecked()}, {"compared_by", report.ComparesAll()}};
  json["rank_zero"] = nullptr;
  if (report.rank_zero.has_value())
    json["rank_zero"] = Json{{"followers", report.rank_zero->followers},
                             {"real", report.rank_zero->real}};
  if (const RankReport* highest = report.HighestPeak();
      highest != nullptr && !report.real_gpu)
    json["memory"] =
        Json{{"device_bytes", report.device_memory_bytes},
             {"peak_bytes", highest->peak_bytes},
             {"peak_rank", highest->rank},
             {"fits", !report.RanOutOfMemory() &&
                          highest->peak_bytes <=
                              static_cast<int64_t>(report.device_memory_bytes)}};
  if (!report.real_gpu)
    json["shared_gpus"] = SharedGpusJson(report);
  json["ledger"] = LedgerJson(report.ledger);
  json["iteration_ledgers"] = Json::array();
  for (const Ledger& ledger : report.iteration_ledgers)
    json["iteration_ledgers"].push_back(LedgerJson(ledger));
  json["kernels"] = Json::array();
  for (const KernelRow& kernel : report.kernels)
    json["kernels"].push_back(Json{{"name", kernel.name},
                                   {"source", graph::Name(kernel.source)},
                                   {"count", kernel.count},
                                   {"time_ns", kernel.time_ns},
                                   {"weight_ns", kernel.weight_ns()}});
  json["decided_by_unknown"] =
      Json{{"sizes", ReadsJson(report.unknown_sizes)},
           {"conditions", ReadsJson(report.unknown_conditions)}};
  json["copied_objects"] = report.copied_objects;
  json["losses"] = LossesJson(report.losses);
  json["assumed_arrivals"] = report.assumed_arrivals;
  json["divergences"] = report.divergences;
  if (with_collectives) {
    json["collectives"] = Json::array();
    for (const auto& [key, row] : report.collectives)
      json["collectives"].push_back(
          Json{{"communicator", key.first},
               {"sequence", key.second},
               {"operation", graph::Name(row.call.operation)},
               {"bytes", row.call.count * graph::ElementBytes(row.call.type)},
               {"end_ns", row.end_ns}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace vrank::tools
