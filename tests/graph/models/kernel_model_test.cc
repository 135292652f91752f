// Prices of launches: described, assumed, cached.

#include "graph/models/kernel_model.h"

#include <cstring>

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using ::testing::HasSubstr;

// scale(float*, float const*, float, int)
constexpr char kScale[] = "_Z5scalePfPKffi";

KernelModel MakeModel(const std::string& costs_text) {
  KernelCostFile file;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(costs_text, &file));
  KernelCosts costs;
  EXPECT_TRUE(costs.Add(file, "kernels.textproto").ok());
  return KernelModel(*LoadGpu("h100", VRANK_DATA_DIR), std::move(costs));
}

protocol::Kernel Launch(uint32_t grid, uint32_t block) {
  protocol::Kernel kernel = {};
  kernel.grid[0] = grid;
  kernel.grid[1] = kernel.grid[2] = 1;
  kernel.block[0] = block;
  kernel.block[1] = kernel.block[2] = 1;
  return kernel;
}

std::vector<std::byte> ScaleArguments(float factor, int32_t n) {
  std::vector<std::byte> bytes(24);
  std::memcpy(&bytes[16], &factor, 4);
  std::memcpy(&bytes[20], &n, 4);
  return bytes;
}

TEST(KernelModelTest, PricesDescribedKernelsByTheirArguments) {
  KernelModel model =
      MakeModel("kernel { name: 'scale' bytes: '8*arg3' flops: 'arg3' }");
  const auto id = model.Define(kScale);
  ASSERT_TRUE(id.ok()) << id.status().ToString();
  const auto cost =
      model.Kernel(*id, Launch(1 << 12, 256), ScaleArguments(2.0f, 1 << 20));
  ASSERT_TRUE(cost.ok()) << cost.status().ToString();
  EXPECT_EQ(cost->bytes, 8u << 20);
  EXPECT_EQ(cost->flops, 1u << 20);
  EXPECT_EQ(cost->source, Source::kModelled);
  EXPECT_NEAR(static_cast<double>(cost->ns), 3200 + (8 << 20) / (3352.3 * 0.91), 1);
  const auto half =
      model.Kernel(*id, Launch(1 << 12, 256), ScaleArguments(2.0f, 1 << 19));
  EXPECT_LT(half->ns, cost->ns);
}

// What takes time is the longest of memory, the unit's issued FLOPs on a GPU of its
// capability, and instructions; what counts stays flops.
TEST(KernelModelTest, TakesIssuedFlopsAndInstructionsIntoTheTime) {
  const char* const costs =
      "kernel { name: 'scale' bytes: '1' flops: 'arg3' unit: TENSOR_BF16 "
      "reached { compute_major: 8 share: 0.1 } "
      "reached { compute_major: 9 share: 0.5 issued: '3 * arg3 * multiprocessors' } }";
  KernelModel model = MakeModel(costs);
  const auto arguments = ScaleArguments(2.0f, 1 << 30);
  auto cost = model.Kernel(*model.Define(kScale), Launch(1, 1), arguments);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->flops, 1u << 30);
  EXPECT_NEAR(static_cast<double>(cost->ns),
              2200 + 3.0 * (1 << 30) * 132 / (989.4e3 * 0.5), 1);

  model = MakeModel(
      "kernel { name: 'scale' bytes: '8*arg3' flops: '0' instructions: '500*arg3' }");
  cost = model.Kernel(*model.Define(kScale), Launch(1 << 12, 256), arguments);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_NEAR(static_cast<double>(cost->ns),
              2200 + 500.0 * (1 << 30) / (132 * 128 * 1.98), 1);
}

// 132 multiprocessors, an access of 500 ns, 40 bytes per nanosecond each.
TEST(KernelModelTest, FewBlocksAndFewBytesUnderWayDoNotReachTheBandwidth) {
  const auto price = [](const char* costs, uint32_t blocks, uint32_t block) {
    KernelModel model = MakeModel(costs);
    return static_cast<double>(model
                                   .Kernel(*model.Define(kScale), Launch(blocks, block),
                                           ScaleArguments(2.0f, 1 << 24))
                                   ->ns);
  };
  constexpr double kBytes = 1 << 24;
  const char* const streams = "kernel { name: 'scale' bytes: 'arg3' flops: '0' }";
  EXPECT_NEAR(price(streams, 1, 1024), 3200 + kBytes / 40, 1);
  EXPECT_NEAR(price(streams, 64, 1024), 3200 + kBytes / (64 * 40), 1);
  EXPECT_NEAR(price(streams, 132, 1024), 3200 + kBytes / (3352.3 * 0.91), 1);
  // Another launch does the work.
  EXPECT_NEAR(price("kernel { name: 'scale' bytes: 'arg3' flops: '0' "
                    "working_blocks: 'blocks * 64' }",
                    1, 1024),
              price(streams, 64, 1024), 1);
  const char* const waits =
      "kernel { name: 'scale' bytes: 'arg3' flops: '0' flight: '4' }";
  EXPECT_NEAR(price(waits, 8, 128), 3200 + kBytes / (8 * 128 * 4 / 500.0), 1);
  // One multiprocessor has as much under way as its threads, where that is stated.
  EXPECT_NEAR(
      price("kernel { name: 'scale' bytes: 'arg3' flops: '0' flight: '32' }", 1, 1024),
      3200 + kBytes / (1024 * 32 / 500.0), 1);
  // 2,048 threads of a multiprocessor at a time.
  EXPECT_NEAR(price(waits, 1 << 16, 128), 3200 + kBytes / (132 * 2048 * 4 / 500.0), 1);
  EXPECT_NEAR(price("kernel { name: 'scale' bytes: 'arg3' flops: '0' flight: '64' }",
                    1 << 16, 128),
              price(streams, 132, 1024), 1);
}

TEST(KernelModelTest, AddsWhatNothingHides) {
  KernelModel model = MakeModel(
      "kernel { name: 'scale' bytes: 'arg3' flops: '0' instructions: 'arg3 / 32' "
      "unhidden: 0.5 exchanges: 'blocks / 100' }");
  const auto cost = model.Kernel(*model.Define(kScale), Launch(1000, 256),
                                 ScaleArguments(2.0f, 1 << 30));
  ASSERT_TRUE(cost.ok()) << cost.status();
  const double memory = 1000 + (1 << 30) / (3352.3 * 0.91);
  const double issue = (1 << 30) / 32.0 / (132 * 128 * 1.98);
  EXPECT_NEAR(static_cast<double>(cost->ns), 2200 + memory + issue / 2 + 10 * 210, 1);

  KernelCostFile file;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "kernel { name: 'scale' bytes: '1' flops: '0' unhidden: 1.5 }", &file));
  KernelCosts costs;
  EXPECT_THAT(std::string(costs.Add(file, "kernels.textproto").message()),
              HasSubstr("unhidden 1.5"));
}

// A share that was measured on another GPU alone: what the work is stays known, so that
// it weighs no more than its time.
TEST(KernelModelTest, AssumesWhereAShareIsMarkedForTheGpu) {
  const char* const costs =
      "kernel { name: 'scale' bytes: '8' flops: 'arg3' unit: TENSOR_BF16 "
      "reached { compute_major: 8 share: 0.5 } "
      "reached { compute_major: 9 share: 0.5 assumed: true } }";
  KernelModel model = MakeModel(costs);
  protocol::Kernel launch = Launch(1, 1);
  launch.reachable_bytes = uint64_t{1} << 36;
  auto cost =
      model.Kernel(*model.Define(kScale), launch, ScaleArguments(2.0f, 1 << 30));
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->source, Source::kAssumed);
  EXPECT_EQ(cost->flops, 1u << 30);
  EXPECT_EQ(cost->unseen_ns, 0u);
  EXPECT_NEAR(static_cast<double>(cost->ns), 2200 + (1 << 30) / (989.4e3 * 0.5), 1);
  ASSERT_EQ(model.assumed().size(), 1u);
  EXPECT_EQ(model.assumed()[0].total_ns, cost->ns);

  KernelCostFile file;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(costs, &file));
  KernelCosts compiled;
  ASSERT_TRUE(compiled.Add(file, "kernels.textproto").ok());
  KernelModel ampere(*LoadGpu("a100", VRANK_DATA_DIR), std::move(compiled));
  cost = ampere.Kernel(*ampere.Define(kScale), launch, ScaleArguments(2.0f, 1 << 30));
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_EQ(cost->source, Source::kModelled);
}

// Another version of a framework may have a kernel of the same name.
TEST(KernelModelTest, AssumesWhereADescriptionDoesNotFitIfItMayNot) {
  KernelCostFile argument, field, unit;
  using google::protobuf::TextFormat;
  ASSERT_TRUE(TextFormat::ParseFromString(
      "kernel { name: 'scale' bytes: 'arg4' flops: '0' }", &argument));
  ASSERT_TRUE(TextFormat::ParseFromString(
      "kernel { name: 'scale' bytes: 'n' flops: '0' field { name: 'n' at: 64 } }",
      &field));
  ASSERT_TRUE(TextFormat::ParseFromString(
      "kernel { name: 'scale' bytes: '1' flops: '0 - arg3' }", &unit));
  for (const KernelCostFile& file : {argument, field, unit}) {
    SCOPED_TRACE(file.ShortDebugString());
    for (const auto strictness :
         {KernelCosts::Strictness::kError, KernelCosts::Strictness::kUndescribed}) {
      KernelCosts costs;
      ASSERT_TRUE(costs.Add(file, "kernels.textproto", {}, strictness).ok());
      KernelModel model(*LoadGpu("h100", VRANK_DATA_DIR), std::move(costs));
      const auto id = model.Define(kScale);
      const bool may_not_fit = strictness == KernelCosts::Strictness::kUndescribed;
      for (int launch = 0; launch < 2; ++launch) {
        const auto cost = !id.ok() ? absl::StatusOr<WorkCost>(id.status())
                                   : model.Kernel(*id, Launch(1024, 256),
                                                  ScaleArguments(2.0f, 1 << 20));
        ASSERT_EQ(cost.ok(), may_not_fit) << cost.status();
        if (may_not_fit) {
          EXPECT_EQ(cost->source, Source::kAssumed);
          EXPECT_EQ(cost->bytes, 16u * 1024 * 256);
        }
      }
    }
  }
}

TEST(KernelModelTest, AssumesFromGeometryAndNamesTheKernel) {
  KernelModel model = MakeModel("");
  const auto id = model.Define(kScale);
  ASSERT_TRUE(id.ok());
  const auto cost = model.Kernel(*id, Launch(1024, 256), {});
  ASSERT_TRUE(cost.ok());
  EXPECT_EQ(cost->source, Source::kAssumed);
  EXPECT_EQ(cost->bytes, 16u * 1024 * 256);
  EXPECT_GT(cost->ns, 2200);
  ASSERT_EQ(model.assumed().size(), 1u);
  EXPECT_EQ(model.assumed()[0].name, "scale(float*, float const*, float, int)");
  EXPECT_EQ(model.assumed()[0].launches, 1u);
}

TEST(KernelModelTest, PricesByTheMachineCodeWhatNoFileDescribes) {
  KernelModel model = MakeModel("");
  const auto id = model.Define(kScale);
  ASSERT_TRUE(id.ok());
  constexpr double kThreads = 1 << 20;
  protocol::Kernel launch = Launch(1 << 12, 1 << 8);
  launch.thread = {.instructions = 20, .bytes = 32};
  const WorkCost moves = *model.Kernel(*id, launch, {});
  EXPECT_EQ(moves.source, Source::kModelled);
  EXPECT_EQ(moves.bytes, 32u << 20);
  EXPECT_NEAR(static_cast<double>(moves.ns), 3200 + kThreads * 32 / (3352.3 * 0.91), 1);
  // Code of the same name that computes: 132 multiprocessors start four warps' at 1.98
  // GHz.
  launch.thread = {.instructions = 5000, .bytes = 32};
  const WorkCost computes = *model.Kernel(*id, launch, {});
  EXPECT_NEAR(static_cast<double>(computes.ns),
              2200 + kThreads * 5000 / (132 * 128 * 1.98), 1);
  EXPECT_TRUE(model.assumed().empty());

  KernelModel described =
      MakeModel("kernel { name: 'scale' bytes: '8*arg3' flops: '0' }");
  EXPECT_EQ(
      described.Kernel(*described.Define(kScale), launch, ScaleArguments(2.0f, 64))
          ->bytes,
      8u * 64);
}

// The price of equal launches is one; how much they may be wrong by is not.
TEST(KernelModelTest, AnAssumedLaunchWeighsAsReadingAllThatItReaches) {
  KernelModel model = MakeModel("");
  const auto small = model.Define("_Z5smallPf"), large = model.Define("_Z5largePf");
  const auto price = [&model](KernelModel::KernelId id, uint64_t reachable) {
    protocol::Kernel launch = Launch(64, 256);
    launch.reachable_bytes = reachable;
    return *model.Kernel(id, launch, {});
  };
  const WorkCost nothing = price(*small, 0);
  EXPECT_EQ(nothing.unseen_ns, 0u);
  // What its threads are assumed to move is more than it can reach.
  EXPECT_EQ(price(*small, 64 * 256).unseen_ns, 0u);
  const WorkCost much = price(*large, uint64_t{10} << 30);
  EXPECT_EQ(much.ns, nothing.ns);
  EXPECT_NEAR(static_cast<double>(much.ns + much.unseen_ns),
              (uint64_t{10} << 30) / (3352.3 * 0.91), 5000);
  // No machine has that much: the sum stays where it is.
  EXPECT_EQ(price(*large, ~uint64_t{0}).unseen_ns, ~uint32_t{0});
  ASSERT_EQ(model.assumed().size(), 2u);
  EXPECT_EQ(model.assumed()[0].name, "large(float*)");
  EXPECT_EQ(model.assumed()[0].unseen_ns, int64_t{much.unseen_ns} + ~uint32_t{0});

  protocol::Kernel launch = Launch(64, 256);
  launch.reachable_bytes = uint64_t{10} << 30;
  KernelModel described =
      MakeModel("kernel { name: 'large' bytes: '8 * threads' flops: '0' }");
  EXPECT_EQ(described.Kernel(*described.Define("_Z5largePf"), launch, {})->unseen_ns,
            0u);
}

TEST(KernelModelTest, DefinesAKernelOnce) {
  KernelModel model = MakeModel("");
  EXPECT_EQ(*model.Define(kScale), *model.Define(kScale));
}

TEST(KernelModelTest, RefusesArgumentsThatAreNoNumbers) {
  KernelModel model = MakeModel("kernel { name: 'scale' bytes: 'arg0' flops: '0' }");
  const auto id = model.Define(kScale);
  ASSERT_FALSE(id.ok());
  EXPECT_THAT(id.status().ToString(), HasSubstr("arg0"));
  EXPECT_THAT(id.status().ToString(), HasSubstr("'scale'"));
}

TEST(KernelModelTest, ReportsMissingArgumentBytes) {
  KernelModel model = MakeModel("kernel { name: 'scale' bytes: 'arg3' flops: '0' }");
  const auto id = model.Define(kScale);
  EXPECT_EQ(model.Kernel(*id, Launch(1, 1), {}).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(KernelModelTest, IgnoresArgumentsThatNoExpressionUses) {
  KernelModel model = MakeModel("kernel { name: 'scale' bytes: '8*arg3' flops: '0' }");
  const auto id = model.Define(kScale);
  const auto a = model.Kernel(*id, Launch(1, 1), ScaleArguments(1.0f, 4096));
  const auto b = model.Kernel(*id, Launch(1, 1), ScaleArguments(3.0f, 4096));
  EXPECT_EQ(a->ns, b->ns);
}

// Knows one launch of one kernel.
class OneRecordedTime : public RecordedTimes {
 public:
  std::optional<int64_t> Find(const std::string& mangled, const uint32_t (&grid)[3],
                              const uint32_t (&block)[3],
                              uint32_t shared_bytes) const override {
    if (mangled == kScale && grid[0] == 8 && block[0] == 256 && shared_bytes == 0)
      return 4711;
    return std::nullopt;
  }
};

TEST(KernelModelTest, TakesRecordedTimesFirst) {
  const OneRecordedTime recorded;
  KernelModel model = MakeModel("kernel { name: 'scale' bytes: '8*arg3' flops: '0' }");
  model.UseRecordedTimes(&recorded);
  const auto id = model.Define(kScale);
  const auto known = model.Kernel(*id, Launch(8, 256), ScaleArguments(1.0f, 2048));
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(known->ns, 4711);
  EXPECT_EQ(known->source, Source::kRecorded);
  // What it moves still comes from its description.
  EXPECT_EQ(known->bytes, 8u * 2048);
  const auto other = model.Kernel(*id, Launch(9, 256), ScaleArguments(1.0f, 2048));
  EXPECT_EQ(other->source, Source::kModelled);
}

TEST(KernelModelTest, ARecordedTimeIsNotAssumed) {
  const OneRecordedTime recorded;
  KernelModel model = MakeModel("");
  model.UseRecordedTimes(&recorded);
  const auto id = model.Define(kScale);
  protocol::Kernel launch = Launch(8, 256);
  launch.reachable_bytes = uint64_t{10} << 30;
  ASSERT_EQ(model.Kernel(*id, launch, {})->source, Source::kRecorded);
  EXPECT_EQ(model.Kernel(*id, launch, {})->unseen_ns, 0u);
  EXPECT_TRUE(model.assumed().empty());
}

}  // namespace
}  // namespace vrank::graph
