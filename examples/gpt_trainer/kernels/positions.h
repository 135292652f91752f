// Which positions of its sequences a rank holds, for host code and kernels.

#ifndef EXAMPLES_GPT_TRAINER_KERNELS_POSITIONS_H_
#define EXAMPLES_GPT_TRAINER_KERNELS_POSITIONS_H_

#include "examples/gpt_trainer/kernels/element_math.h"

namespace gpt {

// Two chunks of `half` positions, from `first` and from `second` on. The causal mask
// makes late positions dearer than early ones: of 2 cp chunks, rank r of a
// context-parallel group takes number r and number 2 cp - 1 - r, so that every rank has
// the same work.
struct Positions {
  int half;
  int first;
  int second;

  GPT_HOST_DEVICE int at(int local) const {
    return local < half ? first + local : second + local - half;
  }
  // How many of them are not behind `position`: these come first.
  GPT_HOST_DEVICE int UpTo(int position) const {
    const int of_first = position + 1 - first;
    const int of_second = position + 1 - second;
    return (of_first < 0      ? 0
            : of_first < half ? of_first
                              : half) +
           (of_second < 0      ? 0
            : of_second < half ? of_second
                               : half);
  }
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_KERNELS_POSITIONS_H_
