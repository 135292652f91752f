#include "examples/gpt_trainer/kernels/element_math.h"

#include <cmath>

#include <gtest/gtest.h>

namespace gpt {
namespace {

TEST(ElementMathTest, GeluDerivativeIsItsSlope) {
  for (float x = -4.0f; x <= 4.0f; x += 0.25f) {
    const float step = 1e-2f;
    const float slope = (Gelu(x + step) - Gelu(x - step)) / (2 * step);
    EXPECT_NEAR(GeluDerivative(x), slope, 1e-3) << "x = " << x;
  }
}

TEST(ElementMathTest, RoughlyNormalHasMeanZeroAndVarianceOne) {
  double sum = 0;
  double squares = 0;
  constexpr int kSamples = 200'000;
  for (int i = 0; i < kSamples; ++i) {
    const double x = RoughlyNormal(1234, 7, i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kSamples, 0.0, 0.01);
  EXPECT_NEAR(squares / kSamples, 1.0, 0.01);
}

TEST(ElementMathTest, TensorsDiffer) {
  EXPECT_NE(RoughlyNormal(1, 0, 5), RoughlyNormal(1, 1, 5));
  EXPECT_NE(RoughlyNormal(1, 0, 5), RoughlyNormal(2, 0, 5));
}

// With a constant gradient Adam moves by about the learning rate per step.
TEST(ElementMathTest, AdamFollowsTheSign) {
  float master = 1.0f;
  float momentum = 0.0f;
  float variance = 0.0f;
  for (int step = 1; step <= 10; ++step) {
    const AdamStep now{0.01f,
                       0.9f,
                       0.95f,
                       1e-8f,
                       0.0f,
                       1.0f - std::pow(0.9f, static_cast<float>(step)),
                       1.0f - std::pow(0.95f, static_cast<float>(step)),
                       1.0f};
    master = AdamUpdate(master, &momentum, &variance, 3.0f, now);
  }
  EXPECT_NEAR(master, 0.9f, 1e-3f);
}

}  // namespace
}  // namespace gpt
