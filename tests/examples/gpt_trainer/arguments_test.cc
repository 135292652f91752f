#include "examples/gpt_trainer/arguments.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/gpt_trainer/model_shape.h"

namespace gpt {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::vector<std::string>& words) {
  try {
    MakeModelShape(ParseArguments(words), 0);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ArgumentsTest, ReadsBothSpellings) {
  const Arguments arguments =
      ParseArguments({"--layers", "96", "--hidden=12288", "--lr", "1e-4",
                      "--extra-all-reduce", "--seed=18446744073709551615"});
  EXPECT_EQ(arguments.layers, 96);
  EXPECT_EQ(arguments.hidden, 12288);
  EXPECT_FLOAT_EQ(arguments.lr, 1e-4f);
  EXPECT_TRUE(arguments.extra_all_reduce);
  EXPECT_EQ(arguments.seed, ~uint64_t{0});
}

TEST(ArgumentsTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(ErrorOf({"--layer", "4"}), HasSubstr("unknown option '--layer'"));
  EXPECT_THAT(ErrorOf({"4"}), HasSubstr("unknown option '4'"));
}

TEST(ArgumentsTest, RefusesMissingAndMalformedValues) {
  EXPECT_THAT(ErrorOf({"--layers"}), HasSubstr("needs a value"));
  EXPECT_THAT(ErrorOf({"--layers", "4x"}), HasSubstr("'4x' is not a number"));
  EXPECT_THAT(ErrorOf({"--layers", "0"}), HasSubstr("at least 1"));
  EXPECT_THAT(ErrorOf({"--layers", "99999999999"}), HasSubstr("is not a number"));
  EXPECT_THAT(ErrorOf({"--lr", "nan"}), HasSubstr("is not a number"));
  EXPECT_THAT(ErrorOf({"--lr", "inf"}), HasSubstr("is not a number"));
  EXPECT_THAT(ErrorOf({"--explain=yes"}), HasSubstr("takes no value"));
}

TEST(ArgumentsTest, HelpNamesEveryOption) {
  const std::string usage = OptionsText();
  for (const char* name : {"--layers", "--micro-batches", "--data", "--explain"}) {
    EXPECT_THAT(usage, HasSubstr(name));
  }
}

TEST(ModelShapeTest, ChecksThatSizesDivide) {
  EXPECT_THAT(ErrorOf({"--layers", "3", "--pp", "2"}), HasSubstr("--layers 3"));
  EXPECT_THAT(ErrorOf({"--heads", "8", "--tp", "3"}), HasSubstr("--heads 8"));
  EXPECT_EQ(ErrorOf({"--layers", "4", "--pp", "2", "--tp", "2"}), "");
}

TEST(ModelShapeTest, RefusesWhatCannotRunTogether) {
  EXPECT_THAT(ErrorOf({"--attention", "flash"}), HasSubstr("none of batched, fused"));
  EXPECT_THAT(ErrorOf({"--cp", "2"}), HasSubstr("--cp needs --attention fused"));
  EXPECT_THAT(ErrorOf({"--virtual-stages", "2"}), HasSubstr("--pp of at least 2"));
  EXPECT_THAT(ErrorOf({"--virtual-stages", "2", "--pp", "2", "--micro-batches", "3"}),
              HasSubstr("--micro-batches 3"));
  EXPECT_EQ(ErrorOf({"--log-rank", "2", "--tp", "2"}),
            "--log-rank 2: the last rank is 1");
  EXPECT_EQ(ErrorOf({"--log-rank", "1", "--tp", "2"}), "");
  EXPECT_EQ(ErrorOf({"--log-rank", "-1"}), "");
  EXPECT_THAT(ErrorOf({"--ep", "2"}), HasSubstr("need --experts"));
  EXPECT_THAT(ErrorOf({"--experts", "4", "--ep", "2"}), HasSubstr("--dp 1"));
  EXPECT_THAT(ErrorOf({"--experts", "4", "--recompute", "full"}),
              HasSubstr("--recompute full"));
  EXPECT_THAT(ErrorOf({"--loss-scale", "0"}), HasSubstr("--loss-scale"));
}

TEST(ModelShapeTest, TakesDataParallelSizeFromTheWorld) {
  const Arguments arguments = ParseArguments({"--tp", "2", "--pp", "2"});
  EXPECT_EQ(MakeModelShape(arguments, 16).dp, 4);
  EXPECT_THROW(MakeModelShape(arguments, 6), UsageError);
  EXPECT_THROW(MakeModelShape(arguments, 2), UsageError);
}

TEST(ModelShapeTest, CountsTensorRanksFirstThenData) {
  const ModelShape shape =
      MakeModelShape(ParseArguments({"--tp", "2", "--pp", "2", "--dp", "4"}), 16);
  const Coordinates at = shape.CoordinatesOf(13);  // 13 = 1 + 2 * (2 + 4 * 1)
  EXPECT_EQ(at.tp, 1);
  EXPECT_EQ(at.dp, 2);
  EXPECT_EQ(at.pp, 1);
}

}  // namespace
}  // namespace gpt
