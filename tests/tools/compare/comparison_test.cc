// `vrank compare`: results against each other, and limits.

#include "tools/compare/comparison.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/tools/replay_result.h"
#include "tools/compare/comparison_limit.h"
#include "tools/report/comparison_report.h"

namespace vrank::tools {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

JobResult Read(const std::string& name, const Json& json) {
  absl::StatusOr<JobResult> result = ReadResult(name, json.dump());
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

Comparison Compared(const Json& base, const Json& updated) {
  absl::StatusOr<Comparison> comparison =
      Compare(Read("base", base), Read("new", updated), false);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  return *comparison;
}

bool Breaks(const std::string& limit, const Comparison& comparison) {
  const absl::StatusOr<Limit> parsed = ParseLimit(limit);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const absl::StatusOr<const Finding*> broken = Broken(*parsed, comparison);
  EXPECT_TRUE(broken.ok()) << broken.status();
  return *broken != nullptr;
}

TEST(ComparisonTest, FindsWhatMovedAndWhy) {
  const Comparison comparison =
      Compared(Replay(1000, 600, 300, 64), Replay(1050, 600, 350, 64));
  ASSERT_EQ(comparison.findings.size(), 7u);
  EXPECT_EQ(comparison.findings[0].base.name, "iteration_time");
  EXPECT_EQ(comparison.findings[0].change(), 50);
  EXPECT_DOUBLE_EQ(comparison.findings[0].relative_change(), 0.05);
  EXPECT_EQ(comparison.findings[1].base.name, "peak_memory");
  EXPECT_EQ(comparison.findings[1].base.value, 64);
  EXPECT_EQ(comparison.findings[3].base.name, "exposed_communication");
  EXPECT_EQ(comparison.findings[3].base.value, 305);
  EXPECT_EQ(comparison.findings[3].change(), 50);
  ASSERT_EQ(comparison.causes.size(), 1u);
  EXPECT_EQ(comparison.causes[0].name, "all_gather");
  EXPECT_EQ(comparison.causes[0].base_ns, 303);
  EXPECT_EQ(comparison.causes[0].change(), 50);
}

TEST(ComparisonTest, AnEmulationIsItsLastIteration) {
  const Json json{{"schema", "vrank.emulate/1"},
                  {"world_size", 8},
                  {"layout", "dp=8"},
                  {"gpu", "h100"},
                  {"cluster", "hgx"},
                  {"iteration_time_ns", {9000, 400, 4600}},
                  {"memory", {{"peak_bytes", 10}}},
                  {"ledger", {{"assumed", 0.5}}}};
  EXPECT_EQ(Read("last", json).metrics[0].value, 4600);
  EXPECT_EQ(Read("last", json).assumed_ns, 2300);
}

TEST(ComparisonTest, APartThatOneResultDoesNotListHasNoChange) {
  Json updated = Replay(1000, 600, 300, 64);
  updated["critical_path"]["contributors"][0]["name"] = "new_gemm";
  const Comparison comparison = Compared(Replay(1000, 600, 300, 64), updated);
  ASSERT_EQ(comparison.causes.size(), 2u);
  EXPECT_EQ(comparison.causes[0].name, "gemm");
  EXPECT_EQ(comparison.causes[0].new_ns, std::nullopt);
  EXPECT_EQ(comparison.causes[1].name, "new_gemm");
  EXPECT_EQ(comparison.causes[1].base_ns, std::nullopt);
  EXPECT_EQ(comparison.causes[1].change(), 0);
}

TEST(ComparisonTest, ConfidenceIsWhatAnAssumptionCouldExplain) {
  auto confidence = [](double assumed, int64_t new_ns) {
    return Compared(Replay(1000, 600, 300, 64, assumed),
                    Replay(new_ns, 600, 300, 65, assumed))
        .findings[0]
        .confidence;
  };
  EXPECT_EQ(confidence(0, 1001), "exact");
  EXPECT_EQ(confidence(0.01, 1050), "modelled");
  EXPECT_EQ(confidence(0.1, 1050), "assumed");
  EXPECT_EQ(Compared(Replay(1000, 1, 1, 64, 0.5), Replay(1000, 1, 1, 65, 0.5))
                .findings[1]
                .confidence,
            "exact");
}

TEST(ComparisonTest, LimitsAreOfTheChangeOrOfTheNewResult) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  const Comparison comparison = Compared(Replay(1'000'000, 600, 300, 70 * kGiB),
                                         Replay(1'020'000, 600, 300, 75 * kGiB));
  EXPECT_TRUE(Breaks("iteration_time > +1.9%", comparison));
  EXPECT_FALSE(Breaks("iteration_time > +2%", comparison));
  EXPECT_TRUE(Breaks("iteration_time>+19us", comparison));
  EXPECT_FALSE(Breaks("iteration_time > +20us", comparison));
  EXPECT_TRUE(Breaks("iteration_time > 1ms", comparison));
  EXPECT_FALSE(Breaks("iteration_time > 1.02ms", comparison));
  EXPECT_TRUE(Breaks("peak_memory > 74.9GiB", comparison));
  EXPECT_FALSE(Breaks("peak_memory > 75GiB", comparison));
  EXPECT_FALSE(Breaks("peak_memory > +5GiB", comparison));
  // What gets better never breaks a limit on a change.
  EXPECT_FALSE(Breaks("iteration_time > +0%",
                      Compared(Replay(1000, 1, 1, 1), Replay(900, 1, 1, 1))));
}

TEST(ComparisonTest, LimitsThatSayNothingAreRefused) {
  for (const char* text :
       {"", "iteration_time", "iteration_time < 3s", "iteration_time > 2%",
        "iteration_time > +2", "iteration_time > 2GiB", "peak_memory > 3s",
        "peak_memory > +5parsec", "iteration_time > -2%"}) {
    const absl::StatusOr<Limit> limit = ParseLimit(text);
    ASSERT_FALSE(limit.ok()) << text;
    EXPECT_THAT(std::string(limit.status().message()),
                AllOf(HasSubstr("--fail-if"), HasSubstr("write ")));
  }
  const absl::StatusOr<const Finding*> unknown =
      Broken(*ParseLimit("loss > +2%"),
             Compared(Replay(1000, 1, 1, 1), Replay(1000, 1, 1, 1)));
  EXPECT_THAT(std::string(unknown.status().message()),
              AllOf(HasSubstr("no metric 'loss'"), HasSubstr("iteration_time")));
}

TEST(ComparisonTest, ResultsOfDifferentJobsAreNotCompared) {
  Json other = Replay(1000, 1, 1, 1);
  other["world_size"] = 16;
  const JobResult base = Read("a.json", Replay(1000, 1, 1, 1));
  const auto refused = Compare(base, Read("b.json", other), false);
  EXPECT_THAT(
      std::string(refused.status().message()),
      AllOf(HasSubstr("8 ranks"), HasSubstr("16 ranks"), HasSubstr("--any-job")));
  EXPECT_TRUE(Compare(base, Read("b.json", other), true).ok());
}

Json WithProvenance(Json result, const std::string& command,
                    const std::string& torch = "2.11.0") {
  result["provenance"] = Json{{"command", command},
                              {"program", "train.py:12345678"},
                              {"options", ""},
                              {"software", {{"PyTorch", torch}}}};
  return result;
}

TEST(ComparisonTest, NamesWhatDiffersBesideTheFigures) {
  const Json base = WithProvenance(Replay(1000, 1, 1, 1), "train --bucket 40 --fast");
  const Comparison comparison = Compared(
      base, WithProvenance(Replay(1000, 1, 1, 1), "train --bucket 2 --fast", "2.15.0"));
  const std::string text = ComparisonText(comparison, {});
  EXPECT_THAT(text, AllOf(HasSubstr("differs: command: --bucket 40 -> --bucket 2\n"),
                          HasSubstr("differs: PyTorch: 2.11.0 -> 2.15.0\n"),
                          Not(HasSubstr("program"))));
  EXPECT_EQ(Json::parse(ComparisonJson(comparison, {}))["differences"].size(), 2u);
  EXPECT_TRUE(Compared(base, base).differences.empty());
  // A result of an older version does not state it.
  EXPECT_TRUE(Compared(base, Replay(1000, 1, 1, 1)).differences.empty());
}

// Two iterations of one rank.
Json Emulation(int64_t flops, int64_t bytes) {
  Json json{{"schema", "vrank.emulate/1"},
            {"world_size", 8},
            {"layout", "dp=8"},
            {"gpu", "h100"},
            {"cluster", "hgx"},
            {"iteration_time_ns", {500, 400}},
            {"memory", {{"peak_bytes", 10}}},
            {"ledger", {{"assumed", 0.5}}}};
  json["ranks"] = {
      Json{{"flops", flops}, {"communication", {{"all_reduce", {{"bytes", bytes}}}}}}};
  return WithProvenance(json, "train");
}

TEST(ComparisonTest, ALostOverlapIsExposedCommunication) {
  const auto with = [](int64_t exposed_ns) {
    Json json = Emulation(1000, 800);
    const Json shorter{{"iteration_time_ns", {500, 390}},
                       {"last_iteration_gpu", {{"compute_ns", 1}}}};
    json["ranks"][0]["iteration_time_ns"] = {500, 400};
    json["ranks"][0]["last_iteration_gpu"] = {{"compute_ns", 300},
                                              {"exposed_communication_ns", exposed_ns},
                                              {"copies_ns", 0},
                                              {"idle_ns", 100 - exposed_ns},
                                              {"overlapped_communication_ns", 5}};
    json["ranks"].push_back(shorter);
    json["ranks"][1]["communication"] = Json::object();
    return json;
  };
  const Comparison comparison = Compared(with(20), with(70));
  EXPECT_THAT(
      ComparisonText(comparison, {}),
      AllOf(ContainsRegex("exposed_communication +20 ns +70 ns +\\+50 ns"),
            ContainsRegex("idle +80 ns +30 ns +-50 ns"), Not(HasSubstr("copies"))));
  EXPECT_TRUE(Breaks("exposed_communication > +10%", comparison));
}

TEST(ComparisonTest, AllocatedMemoryIsNamedByWhenAndForWhatItWasTaken) {
  const auto with = [](int64_t activations, int64_t logits) {
    Json json = Emulation(1000, 800);
    json["memory"]["peak_rank"] = 0;
    Json& rank = json["ranks"][0];
    rank["rank"] = 0;
    rank["iteration_time_ns"] = {500, 400};
    rank["waited_ns"] = 1;
    rank["communication"] = Json::object();
    rank["host"] = Json::object();
    rank["peak_memory_by_owner_bytes"] = {{"program", 10'000}};
    const Json launches = {{{"kernel", "gemm"}, {"bytes", activations}},
                           {{"kernel", "softmax"}, {"bytes", logits}}};
    const Json rows = {{{"taken", "before"},
                        {"earlier_iteration", false},
                        {"bytes", 7000},
                        {"launches", Json::array()}},
                       {{"taken", "forward"},
                        {"earlier_iteration", false},
                        {"bytes", activations + logits},
                        {"launches", launches}}};
    rank["allocator"] = {{"peak_allocated_bytes", 7000 + activations + logits},
                         {"peak_contents", {{"rows", rows}}}};
    json["kernels"] = Json::array();
    return json;
  };
  const Comparison comparison = Compared(with(1000, 200), with(1000, 700));
  EXPECT_THAT(ComparisonText(comparison, {}),
              AllOf(ContainsRegex("  taken in the forward pass +1.17 KiB +1.66 KiB +"
                                  "\\+500 B"),
                    ContainsRegex("    for softmax +200 B +700 B +\\+500 B"),
                    Not(HasSubstr("for gemm")), Not(HasSubstr("before the first"))));
  const Json contents = Json::parse(ComparisonJson(comparison, {}))["peak_contents"];
  ASSERT_EQ(contents.size(), 2u);
  EXPECT_EQ(contents[1]["kernel"], "softmax");
}

// Every third iteration writes a checkpoint, or something passes between iterations.
TEST(ComparisonTest, TheMeanCountsWhereIterationsDiffer) {
  Json base = Emulation(1000, 800), updated = base;
  base["iteration_time_ns"] = {900, 400, 400, 400, 400};
  updated["iteration_time_ns"] = {900, 400, 1000, 400, 400};
  updated["between_iterations_ns"] = 50;
  const auto mean = [](const Json& from, const Json& to) {
    return Compare(Read("a", from), Read("b", to), false)->findings.back();
  };
  const Finding finding = mean(base, updated);
  EXPECT_EQ(finding.base.name, "mean_iteration_time");
  EXPECT_EQ(finding.base.value, 400);
  EXPECT_EQ(finding.updated.value, 600);
  EXPECT_TRUE(finding.is_shown);
  EXPECT_TRUE(mean(updated, base).is_shown);
  EXPECT_FALSE(mean(base, base).is_shown);
  EXPECT_TRUE(Breaks("mean_iteration_time > +49%",
                     *Compare(Read("a", base), Read("b", updated), false)));
}

TEST(ComparisonTest, AnotherModelIsNoChangeOfThisOne) {
  const auto compare = [](const Json& updated, bool any_job = false) {
    return Compare(Read("a.json", Emulation(1000, 800)), Read("b.json", updated),
                   any_job);
  };
  const auto refused = compare(Emulation(500, 400));
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("-50.0 % FLOPs"), HasSubstr("-50.0 % bytes"),
                    HasSubstr("another model"), HasSubstr("--any-job")));
  EXPECT_FALSE(compare(Emulation(2000, 1600)).ok());
  EXPECT_TRUE(compare(Emulation(500, 400), true).ok());
  EXPECT_TRUE(compare(Emulation(1330, 1200)).ok());  // recomputes
  EXPECT_TRUE(compare(Emulation(750, 530)).ok());    // does no longer
  EXPECT_TRUE(compare(Emulation(1000, 1200)).ok());  // splits parameters
  EXPECT_TRUE(compare(Emulation(1050, 840)).ok());
  // Without communication FLOPs decide.
  EXPECT_FALSE(
      Compare(Read("a", Emulation(1000, 0)), Read("b", Emulation(500, 0)), false).ok());
}

TEST(ComparisonTest, AnotherModelIsRefusedOfReplays) {
  const auto replay = [](int64_t nodes, int64_t bytes) {
    Json json = Replay(1000, 1, 1, 1);
    json["nodes"] = nodes;
    json["communication_bytes"] = bytes;
    return json;
  };
  const JobResult base = Read("a.json", replay(1000, 800));
  EXPECT_THAT(
      std::string(
          Compare(base, Read("b.json", replay(500, 400)), false).status().message()),
      HasSubstr("-50.0 % operations"));
  EXPECT_TRUE(Compare(base, Read("b.json", replay(600, 800)), false).ok());  // fuses
}

TEST(ComparisonTest, TimesOfAJobThatItsHostBoundsAreLowerBounds) {
  Json bound = Emulation(1000, 800);
  bound["host_bound"] = Json{{"rank", 0}, {"cpu_ns", 900}, {"iteration_ns", 400}};
  const Comparison comparison = Compared(Emulation(1000, 800), bound);
  EXPECT_EQ(comparison.findings[0].confidence, "lower bound");
  EXPECT_EQ(comparison.findings[1].confidence, "exact");
}

TEST(ComparisonTest, TimesWithAMeasuredHostAreNoExactOnes) {
  Json measured = Emulation(1000, 800);
  measured["host_time"] = Json{{"mode", "measured"}};
  const Comparison comparison = Compared(Emulation(1000, 800), measured);
  EXPECT_EQ(comparison.findings[0].confidence, "measured");
  EXPECT_EQ(comparison.findings[1].confidence, "exact");
  // So have those of graphs. One of a real GPU states no mode.
  Json replay = Replay(1000, 600, 300, 64);
  replay["host_time"] =
      Json{{"mode", "measured"}, {"critical_path_ns", Json::object()}};
  EXPECT_EQ(Compared(Replay(1000, 600, 300, 64), replay).findings[0].confidence,
            "measured");
  replay["host_time"].erase("mode");
  EXPECT_EQ(Compared(Replay(1000, 600, 300, 64), replay).findings[0].confidence,
            "exact");
  measured["host_time"] = 3;
  EXPECT_FALSE(ReadResult("odd.json", measured.dump()).ok());
}

// The same recording says the same of both programs; two recordings of one program
// differ by the noise of a machine.
TEST(ComparisonTest, TimesWithTwoRecordingsOfTheHostHoldTheirNoise) {
  const auto recorded = [](const std::string& file) {
    Json json = Emulation(1000, 800);
    json["host_time"] = Json{{"mode", "recorded"}};
    json["iteration_ledgers"] = Json::array();
    json["provenance"] = Json{{"command", "python t.py"},
                              {"program", "t.py:1"},
                              {"options", "host_time:" + file + " x:1"},
                              {"software", Json::object()}};
    return json;
  };
  const auto confidence = [](const Json& base, const Json& updated) {
    return Compared(base, updated).findings[0].confidence;
  };
  EXPECT_EQ(confidence(recorded("a.vhost:1"), recorded("a.vhost:2")), "recorded");
  EXPECT_NE(confidence(recorded("a.vhost:1"), recorded("a.vhost:1")), "recorded");
  EXPECT_EQ(confidence(Emulation(1000, 800), recorded("a.vhost:1")), "recorded");
}

// CPU time of the start, most of a short run's, is no part of an iteration.
TEST(ComparisonTest, TheProgramsOwnTimeIsThatOfItsIterations) {
  const auto recorded = [](int64_t start_ns, double share) {
    Json json = Emulation(1000, 800);
    json["host_time"] = Json{{"mode", "recorded"}};
    json["iteration_ledgers"] = Json::array();
    for (int i = 0; i < 2; ++i)
      json["iteration_ledgers"].push_back(
          Json{{"measured", 0.0}, {"recorded", share}, {"critical_path_ns", 1000}});
    json["kernels"] = Json::array();
    json["memory"]["peak_rank"] = 0;
    Json& rank = json["ranks"][0];
    rank["rank"] = 0;
    rank["waited_ns"] = 0;
    rank["communication"] = Json::object();
    rank["peak_memory_by_owner_bytes"] = Json::object();
    rank["host"][kOwnTime] = Json{{"calls", 5}, {"time_ns", start_ns}};
    return json;
  };
  const auto rows = Compared(recorded(70'000, 0.5), recorded(90'000, 0.75)).work.rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, kOwnTimeOnPath);
  EXPECT_DOUBLE_EQ(rows[0].time_ns, 250);
  EXPECT_TRUE(Compared(recorded(70'000, 0.5), recorded(90'000, 0.5)).work.rows.empty());
}

TEST(ComparisonTest, ShowsTheWorkThatASmallChangeIsMadeOf) {
  const auto text = [](int64_t change_ns) {
    Comparison comparison =
        Compared(Replay(1'000'000, 1, 1, 1), Replay(1'000'000 + change_ns, 1, 1, 1));
    comparison.work.per_iteration = true;
    comparison.work.rows = {{"kernel", "large", 1, 2'000},
                            {"kernel", "sin", 1, 40},
                            {"kernel", "noise", 1, 3},
                            {"host", "launching kernels", 1, 50}};
    return ComparisonText(comparison, {});
  };
  // A fifth of a percent of the iteration, or a tenth of the change.
  EXPECT_THAT(text(0), AllOf(HasSubstr("large"), Not(HasSubstr("sin"))));
  EXPECT_THAT(text(2'040), AllOf(HasSubstr("large"), Not(HasSubstr("sin"))));
  EXPECT_THAT(text(45), AllOf(HasSubstr("sin"), Not(HasSubstr("noise")),
                              Not(HasSubstr("launching kernels"))));
  EXPECT_THAT(text(-45), HasSubstr("sin"));
}

TEST(ComparisonTest, AFailedJobIsNoResult) {
  Json failed = Emulation(1000, 800);
  failed["failure"] = "rank 3 was killed";
  EXPECT_THAT(std::string(ReadResult("failed.json", failed.dump()).status().message()),
              AllOf(HasSubstr("failed.json"), HasSubstr("rank 3 was killed")));
}

TEST(ComparisonTest, UnfitFilesAreOneError) {
  const Json good = Replay(1000, 1, 1, 1);
  const std::string whole = good.dump();
  for (size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_FALSE(ReadResult("cut.json", whole.substr(0, cut)).ok()) << cut;
  for (const auto& [key, value] : good.items()) {
    Json lacking = good;
    lacking.erase(key);
    const auto result = ReadResult("lacking.json", lacking.dump());
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("lacking.json"))
        << key;
  }
  Json idle = good;
  idle["iteration_time_ns"] = Json::array();
  EXPECT_THAT(std::string(ReadResult("idle.json", idle.dump()).status().message()),
              HasSubstr("--iteration-range"));
}

TEST(ComparisonTest, UnfitValuesAreNamed) {
  const auto error = [](const Json& json) {
    return std::string(ReadResult("odd.json", json.dump()).status().message());
  };
  const Json good = Replay(1000, 1, 1, 1);
  Json odd = good;
  odd.erase("classes");
  EXPECT_THAT(error(odd), HasSubstr("no 'classes' where docs/json.md has one"));
  odd = good;
  odd["layout"] = "dp=8\n\x1b[31m";
  EXPECT_THAT(error(odd),
              HasSubstr("layout is \"dp=8\\n\\u001b[31m\"; expected a text"));
  odd = good;
  odd["iteration_time_ns"] = Json::array({5, 0});
  EXPECT_THAT(error(odd), HasSubstr("0 ns"));
  Json bound = Emulation(3, 2);
  ASSERT_TRUE(ReadResult("good.json", bound.dump()).ok());
  for (const Json& value : {Json(-1), Json("x"), Json::object()}) {
    bound["host_bound"] = value;
    EXPECT_THAT(error(bound), HasSubstr("cpu_ns")) << value.dump();
  }
  // Which of two values counts, no rule says.
  std::string text = good.dump();
  text.insert(1, "\"iteration_time_ns\":[1],");
  EXPECT_THAT(std::string(ReadResult("twice.json", text).status().message()),
              HasSubstr("key \"iteration_time_ns\" stands twice"));
  // The same key in objects beside and within each other is no repetition.
  EXPECT_TRUE(ReadResult("good.json", good.dump()).ok());
  text = good.dump();
  text.insert(1, "\"x\":NaN,");
  EXPECT_FALSE(ReadResult("nan.json", text).ok());
}

}  // namespace
}  // namespace vrank::tools
