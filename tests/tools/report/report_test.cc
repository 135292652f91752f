#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/report/job_report.h"
#include "tools/report/report_json.h"
#include "tools/report/report_text.h"

namespace vrank::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

JobReport SomeReport() {
  JobReport report;
  report.world_size = 1024;
  report.layout = "tp=8,pp=16,dp=8";
  report.gpu = "h100";
  report.cluster = "hgx";
  report.followers = 1023;
  report.device_memory_bytes = 80;
  report.iteration_time_ns = {2'000'000, 1'500'000};
  RankReport rank;
  rank.real = true;
  rank.iterations = {{{.ns = 10}, {.ns = 2'000'010}}};
  rank.peak_bytes = 100;
  rank.peak_context_bytes = 10;
  rank.peak_communicator_bytes = 20;
  rank.communication["all_reduce"] = {3, 4096, 500};
  rank.host = {{"creating communicators", {2, 90}}, {"launching kernels", {5, 10}}};
  report.ranks = {rank};
  report.ledger = MakeLedger(graph::Stamp{.ns = 100},
                             {.ns = 1100, .assumed = 250, .assumed_host = 100});
  report.iteration_ledgers = {
      report.ledger, MakeLedger({.ns = 700, .assumed = 240, .assumed_host = 98},
                                {.ns = 1100, .assumed = 250, .assumed_host = 100})};
  report.kernels = {{"mystery()", graph::Source::kAssumed, 7, 70}};
  report.losses = {{"computed_bytes_to_host", "", 8, "bytes that ..."}};
  return report;
}

TEST(ReportTextTest, SaysFirstThatAnIterationIsALowerBound) {
  JobReport report = SomeReport();
  EXPECT_THAT(ReportText(report), Not(HasSubstr("lower bound")));
  report.ranks[0].host_cpu_ns = {std::nullopt, 140'000'000};
  report.host_bound = HostBound();
  report.host_bound->cpu_ns = 140'000'000;
  const std::string text = ReportText(report);
  EXPECT_LT(text.find("lower bound rank 0's process used 140.000 ms of CPU"),
            text.find("iteration\n"));
  EXPECT_THAT(text, HasSubstr("fidelity    lower bound; "));
  const auto json = nlohmann::json::parse(ReportJson(report, false));
  EXPECT_EQ(json["host_bound"]["cpu_ns"], 140'000'000);
  EXPECT_TRUE(json["ranks"][0]["host_cpu_ns"][0].is_null());
  EXPECT_EQ(json["ranks"][0]["host_cpu_ns"][1], 140'000'000);
}

TEST(ReportTextTest, SaysWhatWasSeenOfARealGpu) {
  JobReport report = SomeReport();
  report.real_gpu = true;
  report.gpu = "NVIDIA H200";
  report.iteration_source.evidence = graph::IterationEvidence::kCommunication;
  EXPECT_THAT(ReportText(report), HasSubstr("on NVIDIA H200, cluster hgx"));
  EXPECT_THAT(ReportText(report), HasSubstr("found by the collectives that repeat"));
  auto json = nlohmann::json::parse(ReportJson(report, false));
  EXPECT_EQ(json["gpu"], "NVIDIA H200");
  EXPECT_EQ(json["host_time"], (nlohmann::json{{"mode", "real"}}));
  EXPECT_EQ(json["iteration_source"]["evidence"], "communication");
  report.gpu.clear();
  report.iteration_time_ns.clear();
  EXPECT_THAT(ReportText(report), HasSubstr("on GPUs of an unknown kind"));
  EXPECT_THAT(ReportText(report), HasSubstr("range_push(\"iteration\")"));
  json = nlohmann::json::parse(ReportJson(report, false));
  EXPECT_TRUE(json["gpu"].is_null());
  EXPECT_TRUE(json["iteration_source"]["evidence"].is_null());
}

TEST(ReportTextTest, NamesTheThreadsThatNoHostTimeCounts) {
  JobReport report = SomeReport();
  report.host_bound = HostBound();
  report.host_bound->cpu_ns = 152'000'000;
  report.host_bound->of = HostBound::Of::kThreads;
  report.host_bound->threads = "pt_data_worker";
  report.host_bound->count = 2;
  report.host_bound->in_child = true;
  EXPECT_THAT(
      ReportText(report),
      HasSubstr("lower bound rank 0: each of 2 processes 'pt_data_worker' that it "
                "started used at least 152.000 ms of CPU"));
  const auto json = nlohmann::json::parse(ReportJson(report, false));
  EXPECT_EQ(json["host_bound"]["of"], "threads");
  EXPECT_EQ(json["host_bound"]["threads"], "pt_data_worker");
  EXPECT_EQ(json["host_bound"]["count"], 2);
  EXPECT_EQ(json["host_bound"]["in_child"], true);
  report.host_bound->of = HostBound::Of::kIssuers;
  EXPECT_THAT(ReportText(report), HasSubstr("it is of another program or version"));
}

TEST(LedgerTest, SharesAddUp) {
  const Ledger ledger =
      MakeLedger({.ns = 100, .assumed = 40, .assumed_host = 7},
                 {.ns = 1100, .assumed = 240, .recorded = 300, .assumed_host = 57});
  EXPECT_EQ(ledger.total_ns, 1000);
  EXPECT_EQ(ledger.assumed_work_ns, 200);
  EXPECT_EQ(ledger.assumed_host_ns, 50);
  EXPECT_EQ(ledger.assumed_ns(), 250);
  EXPECT_EQ(ledger.recorded_ns, 300);
  EXPECT_EQ(ledger.modelled_ns, 450);
  EXPECT_EQ(ledger.Share(ledger.assumed_ns()), 0.25);
}

TEST(LedgerTest, APathThatAvoidsTheBeginningGivesNoNegativeShare) {
  const Ledger ledger =
      MakeLedger({.ns = 100, .assumed = 90}, {.ns = 200, .assumed = 10});
  EXPECT_EQ(ledger.assumed_ns(), 0);
  EXPECT_EQ(ledger.modelled_ns, 100);
}

TEST(CheckAssumedTest, LimitsAssumedWorkAndNamesIt) {
  JobReport report = SomeReport();  // 25 % work, 10 % host time
  EXPECT_TRUE(CheckAssumed(std::nullopt, report).ok());
  EXPECT_TRUE(CheckAssumed(0.25, report).ok());
  const absl::Status status = CheckAssumed(0.24, report);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("mystery()"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--kernels"));
}

// A guess that makes itself small: 1 us on a path of 1 ms, which may be 41 ms.
TEST(CheckAssumedTest, WeighsAGuessByWhatItMayTake) {
  JobReport report = SomeReport();
  report.ledger =
      MakeLedger({}, {.ns = 1'000'000, .assumed = 41'000'000, .assumed_host = 100'000});
  EXPECT_EQ(report.ledger.assumed_work_ns, 1'000'000);
  EXPECT_EQ(report.ledger.Share(report.ledger.assumed_ns()), 1);
  EXPECT_EQ(report.ledger.modelled_ns, 0);
  report.kernels = {{"flex()", graph::Source::kAssumed, 1, 1'000, 40'999'000},
                    {"gemm", graph::Source::kModelled, 1, 950'000},
                    {"mystery()", graph::Source::kAssumed, 7, 70}};
  EXPECT_THAT(std::string(CheckAssumed(0.5, report).message()),
              HasSubstr("allows 50.0 %: flex() (up to 41.000 ms if it reads all that "
                        "it can reach), mystery()"));
  const auto rows = nlohmann::json::parse(ReportJson(report, false))["kernels"];
  EXPECT_EQ(rows[0]["time_ns"], 1'000);
  EXPECT_EQ(rows[0]["weight_ns"], 41'000'000);
  EXPECT_EQ(rows[2]["weight_ns"], 70);
  EXPECT_THAT(
      ReportText(report),
      HasSubstr("kernels with an assumed time  launches      time  up to, if it reads "
                "all that it can reach\n"
                "flex()                               1  1.000 us  " +
                std::string(31, ' ') +
                "41.000 ms\n"
                "mystery()                            7     70 ns\n"));
}

// Host time is assumed in every run without --host-cost; a limit of 0 must still say
// something about kernels.
TEST(CheckAssumedTest, ZeroAllowsAssumedHostTime) {
  JobReport report = SomeReport();
  report.ledger = MakeLedger({}, {.ns = 1000, .assumed_host = 100});
  EXPECT_TRUE(CheckAssumed(0.0, report).ok());
  report.ledger = MakeLedger({}, {.ns = 1000, .assumed = 1, .assumed_host = 100});
  EXPECT_FALSE(CheckAssumed(0.0, report).ok());
}

TEST(ReportJsonTest, KeepsItsDocumentedFields) {
  const auto json = nlohmann::json::parse(ReportJson(SomeReport(), true));
  EXPECT_EQ(json["schema"], "vrank.emulate/1");
  EXPECT_EQ(json["world_size"], 1024);
  EXPECT_EQ(json["iteration_time_ns"], (std::vector<int64_t>{2'000'000, 1'500'000}));
  EXPECT_EQ(json["ranks"][0]["peak_memory_bytes"], 100);
  EXPECT_EQ(json["ranks"][0]["peak_memory_by_owner_bytes"]["program"], 70);
  EXPECT_EQ(json["ranks"][0]["communication"]["all_reduce"]["calls"], 3);
  EXPECT_EQ(json["ranks"][0]["host"]["creating communicators"]["time_ns"], 90);
  EXPECT_EQ(json["ledger"]["assumed"], 0.35);
  EXPECT_EQ(json["ledger"]["assumed_ns"], 350);
  EXPECT_EQ(json["ledger"]["assumed_work_ns"], 250);
  EXPECT_EQ(json["ledger"]["assumed_host_ns"], 100);
  EXPECT_EQ(json["ledger"]["modelled"], 0.65);
  ASSERT_EQ(json["iteration_ledgers"].size(), 2u);
  EXPECT_EQ(json["iteration_ledgers"][0]["assumed"], 0.35);
  EXPECT_EQ(json["iteration_ledgers"][1]["critical_path_ns"], 400);
  EXPECT_EQ(json["iteration_ledgers"][1]["assumed"], 0.03);
  EXPECT_EQ(json["memory"]["fits"], false);
  EXPECT_EQ(json["unchecked"]["ranks"], 1023);
  EXPECT_THAT(json["unchecked"]["compared_by"].get<std::string>(),
              HasSubstr("vrank trace --ranks 0-1023"));
  EXPECT_TRUE(json["collectives"].is_array());
  EXPECT_FALSE(
      nlohmann::json::parse(ReportJson(SomeReport(), false)).contains("collectives"));
}

TEST(ReportTextTest, NamesWhatIsAssumedAndLost) {
  const std::string text = ReportText(SomeReport());
  EXPECT_THAT(text, HasSubstr("1,024 ranks: 1 real, 1,023 following them live"));
  EXPECT_THAT(text, HasSubstr("mystery()"));
  EXPECT_THAT(text, HasSubstr("35.0 % assumed"));
  EXPECT_THAT(text, HasSubstr("25.0 % work"));
  EXPECT_THAT(text, HasSubstr("10.0 % host time"));
  EXPECT_THAT(text, HasSubstr("of the last iteration alone: 2.5 % work, 0.5 % host"));
  EXPECT_THAT(text, HasSubstr("host time of rank 0     calls   time\n"
                              "creating communicators      2  90 ns\n"));
  EXPECT_THAT(text, HasSubstr("does not fit"));
  EXPECT_THAT(text, HasSubstr("unchecked   faults on the 1,023 virtual ranks; "
                              "`vrank trace --ranks 0-1023`, then `vrank build` "));
  EXPECT_THAT(text, HasSubstr("computed_bytes_to_host  8\n    bytes that ...\n"));
}

TEST(ReportTextTest, NamesWhoRepeatsRankZero) {
  JobReport report = SomeReport();
  EXPECT_THAT(ReportText(report), Not(HasSubstr("repeated")));
  report.rank_zero = JobReport::RankZero{.followers = 1023, .real = {0, 1}};
  EXPECT_THAT(ReportText(report),
              HasSubstr("repeated    by 1,023 ranks: also what rank 0 alone does, like "
                        "waiting for a loss that it prints; with --real 0,1 they "));
  const auto json = nlohmann::json::parse(ReportJson(report, false));
  EXPECT_EQ(json["rank_zero"]["followers"], 1023);
  EXPECT_EQ(json["rank_zero"]["real"], (std::vector<int32_t>{0, 1}));
}

TEST(ReportTextTest, NothingIsUncheckedWhereEveryRankHasCallsOfItsOwn) {
  JobReport report = SomeReport();
  report.recorded = report.followers;
  report.followers = 0;
  EXPECT_EQ(ReportText(report).find("unchecked"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(ReportJson(report, false))["unchecked"].is_null());
}

TEST(ReportTextTest, ExplainsALossOnceForAllItsSubjects) {
  JobReport report = SomeReport();
  report.losses = {{"refused_calls", "one", 1, "calls ..."},
                   {"refused_calls", "two", 2, "calls ..."}};
  EXPECT_THAT(ReportText(report), HasSubstr("losses\n  refused_calls one  1\n"
                                            "  refused_calls two  2\n    calls ...\n"));
}

TEST(ReportTextTest, MergesRowsThatLookEqual) {
  const std::string
      begin = "void at::native::vectorized_elementwise_kernel<",
      end = ", at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)",
      why = ": unknown: its input, from " + begin + "4" + end;
  JobReport report = SomeReport();
  report.losses = {{"computed_bytes_to_host", begin + "4" + end + why, 8, "bytes ..."},
                   {"computed_bytes_to_host", begin + "2" + end + why, 4, "bytes ..."},
                   {"computed_bytes_to_host", begin + "2" + end, 1, "bytes ..."}};
  const std::string shown = "vectorized_elementwise_kernel<FillFunctor<float>>";
  EXPECT_THAT(
      ReportText(report),
      HasSubstr("losses\n  computed_bytes_to_host " + shown +
                "  12\n    unknown: its input, from " + shown +
                "\n  computed_bytes_to_host " + shown + "   1\n    bytes ...\n"));
}

TEST(ReportTextTest, StatesDecisionsByUnknownValues) {
  JobReport report = SomeReport();
  EXPECT_EQ(ReportText(report).find("decide"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(
                  ReportJson(report, false))["decided_by_unknown"]["sizes"]["first"]
                  .is_null());
  report.unknown_sizes = {3, 2, 1, "count(int)", "unknown: its input, from gemm"};
  report.unknown_conditions = {1, 0, std::nullopt, "any(bool)", ""};
  const std::string text = ReportText(report);
  EXPECT_THAT(text,
              HasSubstr("decided     by values that were not computed: 3 sizes of "
                        "tensors"));
  EXPECT_THAT(text, HasSubstr("first in iteration 2 on rank 2, from count(int) "
                              "(unknown: its input, from gemm)\n"));
  EXPECT_THAT(text,
              HasSubstr("may decide  by values that were not computed: 1 integer "
                        "or truth value read before more work was issued; first on "
                        "rank 0, from any(bool)\n"));
  const auto json = nlohmann::json::parse(ReportJson(report, false));
  EXPECT_EQ(json["decided_by_unknown"]["sizes"]["count"], 3);
  EXPECT_EQ(json["decided_by_unknown"]["sizes"]["first"]["iteration"], 2);
  EXPECT_TRUE(json["decided_by_unknown"]["conditions"]["first"]["iteration"].is_null());
}

TEST(ReportTextTest, StatesCopiesOfGatheredObjects) {
  JobReport report = SomeReport();
  report.world_size = 8;
  EXPECT_EQ(ReportText(report).find("copied  "), std::string::npos);
  report.copied_objects = 21;
  EXPECT_THAT(ReportText(report),
              HasSubstr("copied      21 objects that real ranks gathered in place of "
                        "virtual ranks' own: files made of such, as checkpoints of "
                        "torch.distributed.checkpoint, may be incomplete; with --real "
                        "0-7 they are complete\n"));
  EXPECT_EQ(nlohmann::json::parse(ReportJson(report, false))["copied_objects"], 21);
}

}  // namespace
}  // namespace vrank::tools
