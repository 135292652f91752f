// gpt_trainer_host: the same training on the CPU, in fp32, with all ranks as threads of
// this process. Slow, and real: the losses it prints are losses.

#include <stdexcept>
#include <string>

#include "examples/gpt_trainer/device/host/host_world.h"
#include "examples/gpt_trainer/model_shape.h"
#include "examples/gpt_trainer/program.h"

namespace {

constexpr char kStart[] =
    "gpt_trainer_host: trains a GPT with tensor, sequence, pipeline and data "
    "parallelism "
    "on the CPU, in fp32.\n"
    "One process is the whole job: tp * cp * pp * dp ranks are threads of it, and no "
    "launcher starts them.\n"
    "Its losses are real: they fall, and every layout of one job prints the same.\n\n"
    "    gpt_trainer_host --layers 4 --hidden 32 --heads 4 --sequence 16 --vocab 256 "
    "--lr 3e-3\n"
    "        --iterations 40 --tp 2 --pp 2 --dp 2 --micro-batches 4\n\n";

void TrainAll(const gpt::Arguments& arguments) {
  if (const int launched = gpt::WorldFromEnvironment().size; launched > 1) {
    throw gpt::UsageError("WORLD_SIZE is " + std::to_string(launched) +
                          ", but one process holds all ranks here; start it once, "
                          "without a launcher");
  }
  gpt::HostJob job;
  job.ranks = gpt::MakeModelShape(arguments, 0).world_size();
  gpt::RunRanks(job, [&](const gpt::World& world) {
    try {
      gpt::TrainRank(arguments, world);
    } catch (const std::exception& error) {
      throw std::runtime_error("rank " + std::to_string(world.rank) + ": " +
                               error.what());
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  return gpt::RunProgram(argc, argv, kStart, TrainAll);
}
