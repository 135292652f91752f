#include "graph/calibration/calibration.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "graph/models/cluster.h"

namespace vrank::graph {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

ClusterDescription Base() {
  return *LoadCluster("hgx-h100-ib400", VRANK_DATA_DIR);
}

// A site that takes `factor(bytes)` times what the base says.
template <class Factor>
MeasuredTable Site(const std::string& operation, int64_t ranks, int64_t hosts,
                   Factor factor, uint64_t step = 2) {
  const ClusterDescription base = Base();
  const AlphaBetaNetwork network(base);
  MeasuredTable table;
  table.file = operation + ".log";
  table.line = 20;
  table.operation = operation;
  table.ranks = ranks;
  table.hosts = hosts;
  const auto members = *SpreadMembers(base, ranks, hosts);
  for (uint64_t bytes = 1024; bytes <= uint64_t{1} << 33; bytes *= step)
    table.rows.push_back(
        {bytes, static_cast<double>(Predict(network, operation, members, bytes).ns) /
                    1e3 * factor(static_cast<double>(bytes))});
  return table;
}

ClusterDescription Applied(const Calibration& calibration) {
  ClusterDescription result = Base();
  for (const FittedCurve& one : calibration.curves)
    *result.add_measured() = one.curve;
  return result;
}

double Slower(double) {
  return 1.3;
}
// From twice as long to 0.8 times.
double Bent(double bytes) {
  return 0.8 + 1.2 / (1 + std::sqrt(bytes) / 2000);
}

TEST(CalibrationTest, MeasuredSizesTakeWhatWasMeasured) {
  for (const std::string operation :
       {"all_reduce", "all_gather", "alltoall", "broadcast", "sendrecv"}) {
    const MeasuredTable table = Site(operation, 16, 2, Bent);
    const auto calibration = Calibrate(Base(), {table});
    ASSERT_TRUE(calibration.ok()) << calibration.status();
    const ClusterDescription site = Applied(*calibration);
    ASSERT_TRUE(CheckCluster("site", site).ok());
    const AlphaBetaNetwork network(site);
    const auto members = *SpreadMembers(site, 16, 2);
    for (const MeasuredTable::Row& row : table.rows)
      EXPECT_NEAR(
          static_cast<double>(Predict(network, operation, members, row.bytes).ns),
          row.us * 1e3, row.us * 0.2)  // 1e-4 of the factor, and rounding
          << operation << " " << row.bytes;
  }
}

TEST(CalibrationTest, AThirdOfTheSizesPredictsTheOthers) {
  const MeasuredTable all = Site("all_reduce", 16, 2, Bent);
  const auto calibration =
      Calibrate(Base(), {Site("all_reduce", 16, 2, Bent, /*step=*/8)});
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const AlphaBetaNetwork network(Applied(*calibration));
  const auto members = *SpreadMembers(Base(), 16, 2);
  for (const MeasuredTable::Row& row : all.rows)
    EXPECT_NEAR(
        static_cast<double>(Predict(network, "all_reduce", members, row.bytes).ns) /
            (row.us * 1e3),
        1, 0.05)
        << row.bytes;
  const FittedCurve& curve = calibration->curves.front();
  EXPECT_GT(curve.before.p90, 0.15);
  EXPECT_LT(curve.left_out.median, 0.1);
}

TEST(CalibrationTest, OtherMembersFollowTheNearestAndOtherOperationsTheBase) {
  const auto calibration = Calibrate(
      Base(), {Site("all_reduce", 8, 1, Slower), Site("all_reduce", 16, 2, Slower)});
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const ClusterDescription base = Base();
  const AlphaBetaNetwork before(base), after(Applied(*calibration));
  const auto ratio = [&](const std::string& operation, int64_t ranks, int64_t nodes) {
    const auto members = *SpreadMembers(base, ranks, nodes);
    return static_cast<double>(Predict(after, operation, members, 1 << 26).ns) /
           static_cast<double>(Predict(before, operation, members, 1 << 26).ns);
  };
  EXPECT_NEAR(ratio("all_reduce", 4, 1), 1.3, 1e-3);
  EXPECT_NEAR(ratio("all_reduce", 512, 64), 1.3, 1e-3);
  EXPECT_EQ(ratio("all_gather", 8, 1), 1);
  EXPECT_EQ(ratio("sendrecv", 16, 2), 1);
  EXPECT_THAT(calibration->undetermined, Contains(HasSubstr("the base's times for "
                                                            "all_gather")));
  EXPECT_THAT(
      calibration->undetermined,
      Contains(HasSubstr("all_reduce between nodes: measured with 16 members on 2")));
}

TEST(CalibrationTest, TwoTablesOfASiteAreOneCurve) {
  const auto calibration =
      Calibrate(Base(), {Site("all_reduce", 8, 1, [](double) { return 1.0; }),
                         Site("all_reduce", 8, 1, [](double) { return 1.2; })});
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  ASSERT_EQ(calibration->curves.size(), 1u);
  EXPECT_NEAR(calibration->curves.front().curve.point(3).factor(), 1.1, 1e-3);
}

TEST(CalibrationTest, WhatCannotBeFittedIsRefused) {
  const auto refusal = [](const std::vector<MeasuredTable>& tables) {
    return std::string(Calibrate(Base(), tables).status().message());
  };
  EXPECT_THAT(refusal({Site("all_reduce", 8, 1, [](double) { return 1.0; }),
                       Site("all_reduce", 8, 1, [](double) { return 1.7; })}),
              HasSubstr("these are two sites"));
  MeasuredTable few = Site("all_reduce", 8, 1, Slower);
  few.rows.resize(3);
  EXPECT_THAT(refusal({few}), HasSubstr("do not determine"));
  MeasuredTable narrow = Site("all_reduce", 8, 1, Slower);
  narrow.rows.resize(5);  // a span of 16
  EXPECT_THAT(refusal({narrow}), HasSubstr("do not determine"));
  MeasuredTable wide = Site("all_reduce", 8, 1, Slower);
  wide.ranks = 16;  // on one host
  EXPECT_THAT(refusal({wide}), HasSubstr("do not fit"));
}

TEST(CalibrationTest, TheFileIsTheBaseWithCurvesAndTheirSources) {
  const auto calibration = Calibrate(Base(), {Site("all_reduce", 16, 2, Slower)});
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  const std::string base_text =
      "# why\nname: \"base\"\ngpus_per_node: 8\nnic_gbs: 50\n\n\n";
  const std::string text = CalibratedText(base_text, "site", *calibration);
  EXPECT_THAT(text, HasSubstr("# why\nname: \"site\"\ngpus_per_node: 8\n"));
  EXPECT_THAT(text, HasSubstr("# all_reduce.log: 24 rows."));
  EXPECT_THAT(text, Not(HasSubstr("\n\n\n")));
  ClusterDescription read;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &read)) << text;
  ASSERT_EQ(read.measured_size(), 1);
  EXPECT_EQ(read.measured(0).members(), 16u);
  EXPECT_EQ(read.measured(0).point_size(), 24);
  EXPECT_EQ(read.measured(0).point(0).factor(), 1.3);
}

TEST(CalibrationTest, CurvesOfADescriptionAreChecked) {
  ClusterDescription cluster = Base();
  MeasuredCurve* curve = cluster.add_measured();
  curve->set_members(8);
  curve->set_nodes(1);
  EXPECT_THAT(std::string(CheckCluster("c", cluster).message()),
              HasSubstr("measured[0] has no point"));
  for (const uint64_t bytes : {uint64_t{8}, uint64_t{8}}) {
    auto* point = curve->add_point();
    point->set_bytes(bytes);
    point->set_factor(0);
  }
  const std::string message(CheckCluster("c", cluster).message());
  EXPECT_THAT(message, HasSubstr("bytes must ascend"));
  EXPECT_THAT(message, HasSubstr("point.factor must be from"));
}

}  // namespace
}  // namespace vrank::graph
