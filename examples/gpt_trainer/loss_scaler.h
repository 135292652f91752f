// The factor that keeps small gradients from vanishing in narrow number formats
// (Micikevicius et al. 2018, "Mixed Precision Training", section 3.2).
//
// A gradient that is not finite halves it, and the step is skipped; so many good steps
// in a row double it. Pure.

#ifndef EXAMPLES_GPT_TRAINER_LOSS_SCALER_H_
#define EXAMPLES_GPT_TRAINER_LOSS_SCALER_H_

#include <algorithm>

namespace gpt {

class LossScaler {
 public:
  // window: good steps before the scale grows; 0: never.
  LossScaler(float scale, int window) : scale_(scale), window_(window) {}

  float scale() const { return scale_; }
  int good_steps() const { return good_steps_; }

  // After each step: whether its gradient was finite.
  void Update(bool finite) {
    if (!finite) {
      scale_ = std::max(scale_ / 2.0f, 1.0f);
      good_steps_ = 0;
    } else if (++good_steps_ == window_) {
      scale_ *= 2.0f;
      good_steps_ = 0;
    }
  }

  void Restore(float scale, int good_steps) {
    scale_ = scale;
    good_steps_ = good_steps;
  }

 private:
  float scale_;
  int window_;
  int good_steps_ = 0;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_LOSS_SCALER_H_
