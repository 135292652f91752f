#include "examples/gpt_trainer/token_data.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpt {
namespace {

constexpr Positions kAll{1 << 20, 0, 0};

ModelShape Shape(int sequence, int batch) {
  Arguments arguments;
  arguments.sequence = sequence;
  arguments.micro_batch_size = batch;
  arguments.micro_batches = 2;
  return MakeModelShape(arguments, 0);
}

TEST(TokenDataTest, LabelsAreTheNextTokens) {
  const std::string path =
      ::testing::TempDir() + "/token_data_" + std::to_string(getpid());
  std::ofstream(path) << "abcdefghijklmnopqrstuvwxyz";
  const TokenData data(path, Shape(4, 2));
  std::remove(path.c_str());
  std::vector<int> tokens(8);
  std::vector<int> labels(8);
  data.Fill(0, 0, 1, kAll, tokens.data(),
            labels.data());  // sequences 2 and 3, interleaved
  EXPECT_EQ(tokens, (std::vector<int>{'i', 'm', 'j', 'n', 'k', 'o', 'l', 'p'}));
  EXPECT_EQ(labels, (std::vector<int>{'j', 'n', 'k', 'o', 'l', 'p', 'm', 'q'}));
  data.Fill(1'000'000, 0, 0, kAll, tokens.data(), labels.data());  // wraps
}

TEST(TokenDataTest, NamesWhatIsWrongWithTheFile) {
  EXPECT_THROW(TokenData("/nonexistent/text", Shape(4, 1)), std::runtime_error);
  try {
    const TokenData data("/", Shape(4, 1));
    FAIL() << "a folder was read";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "--data: cannot read '/': Is a directory; name a text file");
  }
  const std::string path =
      ::testing::TempDir() + "/token_data_short_" + std::to_string(getpid());
  std::ofstream(path) << "abcd";
  EXPECT_THROW(TokenData(path, Shape(4, 1)), std::runtime_error);
  std::remove(path.c_str());
}

TEST(TokenDataTest, GeneratesLongEnoughTexts) {
  const TokenData data("", Shape(2048, 1));
  std::vector<int> tokens(2048);
  std::vector<int> labels(2048);
  data.Fill(3, 0, 1, kAll, tokens.data(), labels.data());
  EXPECT_EQ(tokens[1], labels[0]);
}

}  // namespace
}  // namespace gpt
