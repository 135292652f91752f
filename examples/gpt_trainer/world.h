// Which process this is, and how the processes of a job find each other.
//
// The launcher (torchrun, Slurm with a wrapper, ...) sets RANK, WORLD_SIZE and
// LOCAL_RANK. Without them the process is a world of its own.

#ifndef EXAMPLES_GPT_TRAINER_WORLD_H_
#define EXAMPLES_GPT_TRAINER_WORLD_H_

#include <nccl.h>

namespace gpt {

struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
};

// Throws UsageError where a variable is no number or the rank is not below the size.
World WorldFromEnvironment();

// The same id in all processes of the world. With NCCL_COMM_ID every process asks NCCL
// for it; otherwise rank 0 hands it out by TCP at MASTER_ADDR:MASTER_PORT.
// Throws std::runtime_error.
ncclUniqueId AgreeOnUniqueId(const World& world);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_WORLD_H_
