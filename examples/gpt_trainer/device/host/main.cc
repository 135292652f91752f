// gpt_trainer_host: the same training on the CPU, in fp32, with all ranks as threads of
// this process. Slow, and real: the losses it prints are losses.

#include "examples/gpt_trainer/device/host/host_world.h"
#include "examples/gpt_trainer/model_shape.h"
#include "examples/gpt_trainer/program.h"

int main(int argc, char** argv) {
  return gpt::RunProgram(argc, argv, [](const gpt::Arguments& arguments) {
    gpt::HostJob job;
    job.ranks = gpt::MakeModelShape(arguments, 0).world_size();
    gpt::RunRanks(job,
                  [&](const gpt::World& world) { gpt::TrainRank(arguments, world); });
  });
}
