// Cost files: matching, evaluation, and messages for what is wrong.

#include "graph/models/kernel_costs.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using ::testing::HasSubstr;

KernelCostFile Parse(const std::string& text) {
  KernelCostFile file;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &file));
  return file;
}

// void lib::axpy<float>(float*, float const*, float, int)
constexpr char kAxpy[] = "_ZN3lib4axpyIfEEvPT_PKS1_S1_i";

TEST(KernelCostsTest, ReducesNames) {
  EXPECT_EQ(QualifiedName(Demangle(kAxpy)), "lib::axpy");
  EXPECT_EQ(QualifiedName("void (anonymous namespace)::f<int, (bool)1>(int)"),
            "(anonymous)::f");
  EXPECT_EQ(QualifiedName("plain_c_name"), "plain_c_name");
}

TEST(KernelCostsTest, MatchesByNameScopeAndRegex) {
  for (const char* match :
       {"name: 'axpy'", "name: 'lib::axpy'", "regex: 'void lib::axpy<float>.*'"}) {
    KernelCosts costs;
    ASSERT_TRUE(
        costs
            .Add(Parse(std::string("kernel { ") + match + " bytes: '1' flops: '0' }"),
                 "f")
            .ok());
    EXPECT_NE(costs.Find(kAxpy), nullptr) << match;
    EXPECT_EQ(costs.Find("_Z5otherv"), nullptr) << match;
  }
}

TEST(KernelCostsTest, TakesTheFirstEntryThatMatches) {
  KernelCosts costs;
  ASSERT_TRUE(costs
                  .Add(Parse("kernel { regex: '.*axpy.*' bytes: '1' flops: '0' }"
                             "kernel { name: 'axpy' bytes: '2' flops: '0' }"),
                       "f")
                  .ok());
  EXPECT_EQ(costs.Find(kAxpy)->index, 0u);
}

TEST(KernelCostsTest, EvaluatesLaunchAndArguments) {
  KernelCosts costs;
  ASSERT_TRUE(costs
                  .Add(Parse("kernel { name: 'axpy' bytes: '12 * arg3' flops: "
                             "'2 * arg3 + ceildiv(threads, 100) + blocks' }"),
                       "f")
                  .ok());
  const KernelCosts::Entry* entry = costs.Find(kAxpy);
  EXPECT_EQ(entry->arguments, std::vector<uint32_t>{3});
  const Launch launch = {{4, 2, 1}, {32, 1, 1}, 0};
  const double values[] = {1000};
  const auto work = costs.Evaluate(*entry, launch, values);
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(work->bytes, 12000);
  EXPECT_EQ(work->flops, 2000 + 3 + 8);  // ceildiv(256, 100) = 3, blocks = 8
}

TEST(KernelCostsTest, NamesFileKernelAndExpressionOfEveryMistake) {
  KernelCosts costs;
  const absl::Status status =
      costs.Add(Parse("kernel { name: 'one' bytes: 'argh0 * 2' flops: '0' }"
                      "kernel { name: 'two' bytes: '3 +' flops: '0' }"
                      "kernel { name: 'three' bytes: '1' }"
                      "kernel { bytes: '1' flops: '1' }"
                      "kernel { regex: '(' bytes: '1' flops: '1' }"),
                "my.textproto");
  ASSERT_FALSE(status.ok());
  for (const char* part : {"my.textproto", "'one'", "argh0", "'two'", "3 +", "'three'",
                           "either name or regex", "regex '('"}) {
    EXPECT_THAT(status.ToString(), HasSubstr(part));
  }
}

TEST(KernelCostsTest, RefusesAmountsThatAreNone) {
  KernelCosts costs;
  ASSERT_TRUE(costs
                  .Add(Parse("kernel { name: 'axpy' bytes: '10 - grid_x' flops: '0' }"),
                       "my.textproto")
                  .ok());
  const auto work = costs.Evaluate(*costs.Find(kAxpy), {{11, 1, 1}, {1, 1, 1}, 0}, {});
  ASSERT_FALSE(work.ok());
  EXPECT_THAT(work.status().ToString(), HasSubstr("10 - grid_x"));
}

// Without a launch: before a run starts.
TEST(KernelCostsTest, RefusesImpossibleConstantsWithFileLineAndKernel) {
  const std::string path = ::testing::TempDir() + "/impossible.textproto";
  std::ofstream(path) << "kernel { name: 'fine' bytes: '16' flops: '0' }\n"
                         "kernel { name: 'less' bytes: '3 - 19' flops: '1' }\n"
                         "kernel {\n  name: 'none' bytes: '8' flops: '0 / 0'\n}\n"
                         "kernel { name: 'free' bytes: '2 - 2' flops: '0' }\n"
                         "kernel { name: 'endless' bytes: '1e30' flops: '0' }\n"
                         "kernel { name: 'more' bytes: '1' flops: '1' reached { "
                         "compute_major: 9 share: -1 } }\n";
  KernelCosts costs;
  const std::string error(costs.AddFile(path).message());
  for (const char* part :
       {", line 2: kernel 'less', bytes = \"3 - 19\": gives -16",
        ", line 3: kernel 'none', flops", ", line 6: kernel 'free': bytes and flops",
        ", line 7: kernel 'endless', bytes = \"1e30\"",
        ", line 8: kernel 'more': reached", "impossible.textproto'"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
  EXPECT_THAT(error, ::testing::Not(HasSubstr("fine")));
  std::filesystem::remove(path);
}

TEST(KernelCostsTest, RefusesMoreThanALaunchCanDo) {
  KernelCosts costs;
  ASSERT_TRUE(
      costs.Add(Parse("kernel { name: 'axpy' bytes: '1' flops: 'threads ^ 9' }"), "f")
          .ok());
  const auto work =
      costs.Evaluate(*costs.Find(kAxpy), {{1024, 1, 1}, {8, 1, 1}, 0}, {});
  ASSERT_FALSE(work.ok());
  EXPECT_THAT(work.status().ToString(), HasSubstr("which no launch reaches"));
}

TEST(KernelCostsTest, ReadsWhatAGroupMatched) {
  EXPECT_EQ(CaptureValue("128"), 128);
  EXPECT_EQ(CaptureValue("2ul"), 2);
  EXPECT_EQ(CaptureValue("true"), 1);
  EXPECT_EQ(CaptureValue("float"), 4);
  EXPECT_EQ(CaptureValue("c10::BFloat16"), 2);
  EXPECT_EQ(CaptureValue("Other"), std::nullopt);
  EXPECT_EQ(CaptureValue("4x"), std::nullopt);
}

TEST(KernelCostsTest, UsesGroupsInExpressions) {
  KernelCosts costs;
  ASSERT_TRUE(
      costs
          .Add(Parse("kernel { regex: 'void lib::(\\\\w+)<.*' bytes: '1' flops: '0' }"
                     "kernel { regex: 'void lib::axpy<(\\\\w+)>.*' bytes: '3 * m1' "
                     "flops: '0' }"),
               "f")
          .ok());
  std::vector<double> captures;
  // "axpy" is neither a number nor a type, so the first entry does not match.
  const KernelCosts::Entry* entry = costs.Find(kAxpy, &captures);
  ASSERT_EQ(entry->index, 1u);
  const auto work = costs.Evaluate(*entry, {{1, 1, 1}, {1, 1, 1}, 0}, {}, captures);
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(work->bytes, 12);
}

TEST(KernelCostsTest, RefusesFieldsWithoutNamesAndImpossibleShares) {
  for (const char* wrong :
       {"field { at: 4 }", "field { name: 'a' } field { name: 'a' }",
        "chunks { name: 'a' }", "reached { share: 1.5 }",
        "reached { share: 0.5 issued: 'no' }", "instructions: '-1'"}) {
    KernelCosts costs;
    EXPECT_FALSE(
        costs
            .Add(Parse(std::string("kernel { name: 'k' bytes: '1' flops: '0' ") +
                       wrong + " }"),
                 "f")
            .ok())
        << wrong;
  }
}

}  // namespace
}  // namespace vrank::graph
