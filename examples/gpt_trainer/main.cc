// gpt_trainer: trains a GPT with 3-D parallelism on CUDA, cuBLAS and NCCL.
//
// One process per GPU, started by any launcher that sets RANK, WORLD_SIZE, LOCAL_RANK
// and MASTER_ADDR / MASTER_PORT (torchrun, srun with a wrapper, ...).

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/checks.h"
#include "examples/gpt_trainer/closed_form.h"
#include "examples/gpt_trainer/iteration_log.h"
#include "examples/gpt_trainer/reference.h"
#include "examples/gpt_trainer/trainer.h"
#include "examples/gpt_trainer/world.h"

namespace gpt {
namespace {

void SelectDevice(const World& world) {
  int devices = 0;
  GPT_CHECK_CUDA(cudaGetDeviceCount(&devices));
  GPT_CHECK_CUDA(cudaSetDevice(world.local_rank % devices));
}

void Train(const Arguments& arguments) {
  const World world = WorldFromEnvironment();
  const ModelShape shape = MakeModelShape(arguments, world.size);
  SelectDevice(world);
  const IterationLog log(arguments, shape, world.rank);
  log.Start();
  Trainer trainer(arguments, world, shape);
  for (int iteration = 0; iteration < arguments.iterations; ++iteration) {
    const IterationResult result = trainer.RunIteration(iteration);
    log.Iteration(iteration, result, trainer.memory());
  }
  log.End(trainer.memory());
}

int Run(const std::vector<std::string>& words) {
  const Arguments arguments = ParseArguments(words);
  if (arguments.help) {
    std::fputs(Usage().c_str(), stdout);
  } else if (arguments.explain) {
    std::fputs(Explain(arguments, MakeModelShape(arguments, 0)).c_str(), stdout);
  } else if (arguments.reference) {
    std::printf("reference loss %.6f\n",
                ReferenceLoss(arguments, MakeModelShape(arguments, 0)));
  } else {
    Train(arguments);
  }
  return 0;
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  try {
    return gpt::Run({argv + 1, argv + argc});
  } catch (const gpt::UsageError& error) {
    std::fprintf(stderr, "gpt_trainer: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpt_trainer: %s\n", error.what());
    return 1;
  }
}
