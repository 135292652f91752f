// The lines that a run prints: one per iteration, in the manner of Megatron-LM.

#ifndef EXAMPLES_GPT_TRAINER_ITERATION_LOG_H_
#define EXAMPLES_GPT_TRAINER_ITERATION_LOG_H_

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/model_shape.h"
#include "examples/gpt_trainer/trainer.h"

namespace gpt {

class IterationLog {
 public:
  // Prints nothing unless --log-rank names this rank.
  IterationLog(const Arguments& arguments, const ModelShape& shape, int rank);

  void Start() const;
  void Iteration(int iteration, const IterationResult& result,
                 const AllocatorStatistics& memory) const;
  // Peak memory beside what the closed form says.
  void End(const AllocatorStatistics& memory) const;

 private:
  const Arguments& arguments_;
  const ModelShape& shape_;
  bool enabled_;
  int rank_;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_ITERATION_LOG_H_
