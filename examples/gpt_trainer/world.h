// Which process this is, and how the processes of a job find each other.
//
// The launcher (torchrun, Slurm with a wrapper, ...) sets RANK, WORLD_SIZE and
// LOCAL_RANK. Without them the process is a world of its own.

#ifndef EXAMPLES_GPT_TRAINER_WORLD_H_
#define EXAMPLES_GPT_TRAINER_WORLD_H_

namespace gpt {

struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
};

// Throws UsageError where a variable is no number or the rank is not below the size.
World WorldFromEnvironment();

// Where rank 0 listens: MASTER_PORT, or 29500. Throws UsageError.
int MasterPort();

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_WORLD_H_
