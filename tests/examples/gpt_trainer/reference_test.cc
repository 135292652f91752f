#include "examples/gpt_trainer/reference.h"

#include <cmath>

#include <gtest/gtest.h>

namespace gpt {
namespace {

Arguments Tiny() {
  Arguments arguments;
  arguments.layers = 2;
  arguments.hidden = 32;
  arguments.heads = 4;
  arguments.sequence = 16;
  arguments.vocab = 256;
  arguments.micro_batches = 2;
  arguments.micro_batch_size = 2;
  return arguments;
}

// Small random weights know nothing: every token is about equally likely.
TEST(ReferenceTest, StartsAtTheLogarithmOfTheVocabulary) {
  const Arguments arguments = Tiny();
  EXPECT_NEAR(ReferenceLoss(arguments, MakeModelShape(arguments, 0)), std::log(256.0),
              0.05);
}

TEST(ReferenceTest, DependsOnTheSeed) {
  Arguments arguments = Tiny();
  const double first = ReferenceLoss(arguments, MakeModelShape(arguments, 0));
  arguments.seed = 4321;
  EXPECT_NE(first, ReferenceLoss(arguments, MakeModelShape(arguments, 0)));
}

TEST(ReferenceTest, DoesNotDependOnTheSplit) {
  Arguments arguments = Tiny();
  const double first = ReferenceLoss(arguments, MakeModelShape(arguments, 0));
  arguments.tp = 4;
  arguments.pp = 2;
  EXPECT_EQ(first, ReferenceLoss(arguments, MakeModelShape(arguments, 0)));
}

// The same sequences, as two micro-batches of two or as two ranks of one micro-batch.
TEST(ReferenceTest, DoesNotDependOnHowTheBatchIsCut) {
  Arguments arguments = Tiny();
  const double first = ReferenceLoss(arguments, MakeModelShape(arguments, 0));
  arguments.micro_batches = 1;
  arguments.dp = 2;
  EXPECT_NEAR(first, ReferenceLoss(arguments, MakeModelShape(arguments, 0)), 1e-9);
}

}  // namespace
}  // namespace gpt
