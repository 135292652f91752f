// gpt_trainer: trains a GPT with 3-D parallelism on CUDA, cuBLAS and NCCL.
//
// One process per GPU, started by any launcher that sets RANK, WORLD_SIZE, LOCAL_RANK
// and MASTER_ADDR / MASTER_PORT (torchrun, srun with a wrapper, ...).

#include "examples/gpt_trainer/device/cuda/cuda_checks.h"
#include "examples/gpt_trainer/model_shape.h"
#include "examples/gpt_trainer/program.h"

namespace {

constexpr char kStart[] =
    "gpt_trainer: trains a GPT with tensor, sequence, pipeline and data parallelism.\n"
    "One process per GPU; RANK, WORLD_SIZE and LOCAL_RANK say which one this is.\n\n";

}  // namespace

int main(int argc, char** argv) {
  return gpt::RunProgram(argc, argv, kStart, [](const gpt::Arguments& arguments) {
    const gpt::World world = gpt::WorldFromEnvironment();
    // A command line that cannot work ends here, before any device is touched.
    gpt::MakeModelShape(arguments, world.size);
    int devices = 0;
    GPT_CHECK_CUDA(cudaGetDeviceCount(&devices));
    GPT_CHECK_CUDA(cudaSetDevice(world.local_rank % devices));
    gpt::TrainRank(arguments, world);
  });
}
