// The first loss of a run, computed in fp32 by one CPU thread without any parallelism.
//
// An independent check of the GPU path: same initial weights (rounded to bf16), same
// tokens, plain loops. Takes seconds for tiny models and forever for large ones.

#ifndef EXAMPLES_GPT_TRAINER_REFERENCE_H_
#define EXAMPLES_GPT_TRAINER_REFERENCE_H_

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/model_shape.h"

namespace gpt {

// Mean loss over all tokens of iteration 0.
double ReferenceLoss(const Arguments& arguments, const ModelShape& shape);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_REFERENCE_H_
