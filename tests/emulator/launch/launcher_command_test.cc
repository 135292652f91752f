#include "emulator/launch/launcher_command.h"

#include <sstream>

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

std::vector<std::string> Words(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> command;
  for (std::string word; words >> word;)
    command.push_back(word);
  return command;
}

// "torchrun 4"; "mpirun ?" where the options do not state how many; "" for none.
std::string Recognized(const std::string& line) {
  const auto launcher = RecognizeLauncher(Words(line));
  if (!launcher.has_value())
    return "";
  return launcher->name + " " +
         (launcher->ranks.has_value() ? std::to_string(*launcher->ranks) : "?");
}

TEST(LauncherCommandTest, ReadsHowManyRanksTorchrunStarts) {
  EXPECT_EQ(Recognized("torchrun train.py"), "torchrun 1");
  EXPECT_EQ(Recognized("/venv/bin/torchrun --nproc-per-node 4 train.py"), "torchrun 4");
  EXPECT_EQ(Recognized("torchrun --standalone --nproc_per_node=8 train.py"),
            "torchrun 8");
  EXPECT_EQ(Recognized("torchrun --master-port 4242 --nproc-per-node=2 -m train"),
            "torchrun 2");
  EXPECT_EQ(Recognized("python -u -m torch.distributed.run --nproc-per-node 3 t.py"),
            "torchrun 3");
  EXPECT_EQ(Recognized("python3.11 -m torch.distributed.launch t.py"), "torchrun 1");
  EXPECT_EQ(Recognized("python /venv/bin/torchrun --nproc-per-node 2 t.py"),
            "torchrun 2");
}

TEST(LauncherCommandTest, LeavesOpenWhatOptionsDoNotState) {
  EXPECT_EQ(Recognized("torchrun --nproc-per-node gpu train.py"), "torchrun ?");
  EXPECT_EQ(Recognized("torchrun --nnodes 2 --nproc-per-node 8 t.py"), "torchrun ?");
  EXPECT_EQ(Recognized("torchrun --nnodes 1 --nproc-per-node 8 t.py"), "torchrun 8");
  EXPECT_EQ(Recognized("accelerate launch train.py"), "accelerate launch ?");
  EXPECT_EQ(Recognized("deepspeed train.py"), "deepspeed ?");
  EXPECT_EQ(Recognized("mpirun ./train"), "mpirun ?");
  EXPECT_EQ(Recognized("mpirun -n four ./train"), "mpirun ?");
  EXPECT_EQ(Recognized("srun ./train"), "srun ?");
}

TEST(LauncherCommandTest, ReadsTheOthersOptions) {
  EXPECT_EQ(Recognized("accelerate launch --multi_gpu --num_processes 4 t.py"),
            "accelerate launch 4");
  EXPECT_EQ(Recognized("accelerate-launch --num-processes=2 t.py"),
            "accelerate-launch 2");
  EXPECT_EQ(Recognized("python -m accelerate.commands.launch --num_processes 2 t.py"),
            "accelerate launch 2");
  EXPECT_EQ(Recognized("deepspeed --num_gpus 8 t.py --deepspeed_config c.json"),
            "deepspeed 8");
  EXPECT_EQ(Recognized("mpirun --allow-run-as-root --mca btl self -np 4 ./train"),
            "mpirun 4");
  EXPECT_EQ(Recognized("mpiexec -n 1 ./first : -n 3 ./others"), "mpiexec 4");
  EXPECT_EQ(Recognized("orterun -x A=b -n 2 ./train"), "orterun 2");
  EXPECT_EQ(Recognized("srun -n8 ./train"), "srun 8");
  EXPECT_EQ(Recognized("srun --label --ntasks=4 ./train"), "srun 4");
}

// Behind its name, options are the program's.
TEST(LauncherCommandTest, LeavesTheProgramsOptionsAlone) {
  EXPECT_EQ(Recognized("torchrun t.py --nproc-per-node 9"), "torchrun 1");
  EXPECT_EQ(Recognized("torchrun --nproc-per-node 2 t.py --nproc-per-node 9"),
            "torchrun 2");
  EXPECT_EQ(Recognized("mpirun --oversubscribe ./train -n 9"), "mpirun ?");
  EXPECT_EQ(Recognized("torchrun -m train --nproc-per-node 9"), "torchrun 1");
}

TEST(LauncherCommandTest, KnowsWhatIsNoLauncher) {
  for (const char* command :
       {"", "env", "python", "python train.py", "python -m train", "./mpirun.sh",
        "python -m", "accelerate", "accelerate config", "bash -c torchrun",
        "gdb --args ./train", "train torchrun", "python train.py -m torchrun"})
    EXPECT_EQ(Recognized(command), "") << command;
}

TEST(LauncherCommandTest, LooksBehindEnv) {
  EXPECT_EQ(Recognized("env CUDA_VISIBLE_DEVICES=1 torchrun --nproc-per-node 2 t.py"),
            "torchrun 2");
  EXPECT_EQ(Recognized("env A=b python t.py"), "");
}

TEST(LauncherCommandTest, NamesALauncherThatIsNotKnown) {
  EXPECT_EQ(LauncherName(Words("/opt/bin/start_ranks -n 2 ./train")), "start_ranks");
  EXPECT_EQ(LauncherName(Words("python -m torch.distributed.run t.py")), "torchrun");
}

}  // namespace
}  // namespace vrank::emulator
