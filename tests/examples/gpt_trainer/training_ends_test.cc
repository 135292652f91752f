// How training ends and goes on: checkpoints, and ranks that fail.

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/gpt_trainer/checkpoint.h"
#include "examples/gpt_trainer/device/communicator.h"
#include "examples/gpt_trainer/device/host/host_stream.h"
#include "examples/gpt_trainer/trainer.h"
#include "tests/examples/gpt_trainer/host_training.h"

namespace gpt {
namespace {

TEST(TrainingEndsTest, GoesOnFromACheckpoint) {
  const std::string folder =
      ::testing::TempDir() + "/checkpoint_" + std::to_string(getpid());
  const Arguments arguments = TinyModel(2, 2, 2, {"--iterations", "6"});
  const TrainingRun through = TrainOnHost(arguments);
  const ModelShape& shape = through.shape;
  HostJob job;
  job.ranks = shape.world_size();
  RunRanks(job, [&](const World& world) {
    Trainer trainer(arguments, world, shape);
    for (int iteration = 0; iteration < 3; ++iteration) {
      trainer.RunIteration(iteration);
    }
    trainer.Save(folder, 3);
  });
  std::vector<float> losses;
  const auto begin = std::chrono::steady_clock::now();  // before all that is timed
  RunRanks(job, [&](const World& world) {
    Trainer trainer(arguments, world, shape);
    for (int iteration = trainer.Load(folder); iteration < 6; ++iteration) {
      const IterationResult result = trainer.RunIteration(iteration);
      EXPECT_GT(result.device_seconds, 0.0);
      EXPECT_LE(result.device_seconds,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
                    .count());
      if (world.rank == 0) {
        losses.push_back(result.loss);
      }
    }
  });
  EXPECT_EQ(losses,
            (std::vector<float>{through.loss(3), through.loss(4), through.loss(5)}));

  const auto load_as = [&](const Arguments& others) {
    const ModelShape other_shape = MakeModelShape(others, 0, sizeof(Element));
    Trainer(others, {}, other_shape).Load(folder);
  };
  EXPECT_THROW(load_as(TinyModel(1, 1, 1)), std::runtime_error);
  // Elsewhere in the file, though it is as long.
  EXPECT_THROW(load_as(TinyModel(2, 2, 2, {"--bucket-mb", "1"})), std::runtime_error);
  for (int rank = 0; rank < job.ranks; ++rank) {
    std::filesystem::resize_file(CheckpointPath(folder, rank), 1000);
  }
  EXPECT_THROW(RunRanks(job,
                        [&](const World& world) {
                          Trainer(arguments, world, shape).Load(folder);
                        }),
               std::runtime_error);
  std::filesystem::remove_all(folder);
}

// What a rank throws, as the message of its job.
std::string ErrorOf(int ranks, const std::function<void(const World&)>& train) {
  HostJob job;
  job.ranks = ranks;
  try {
    RunRanks(job, train);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// The others wait for it in collectives, transfers and splits.
TEST(TrainingEndsTest, OneRankThatFailsEndsAllWithItsMessage) {
  const Arguments arguments = TinyModel(2, 2, 2, {"--overlap-tp"});
  const ModelShape shape = MakeModelShape(arguments, 0, sizeof(Element));
  for (int failing = 0; failing < shape.world_size(); ++failing) {
    for (const int done : {-1, 0, 2}) {
      const auto train = [&](const World& world) {
        if (world.rank == failing && done < 0) {
          throw std::runtime_error("lost " + std::to_string(failing));
        }
        Trainer trainer(arguments, world, shape);
        for (int iteration = 0; iteration < 3; ++iteration) {
          if (world.rank == failing && iteration == done) {
            throw std::runtime_error("lost " + std::to_string(failing));
          }
          trainer.RunIteration(iteration);
        }
      };
      EXPECT_EQ(ErrorOf(shape.world_size(), train), "lost " + std::to_string(failing));
    }
  }
}

TEST(TrainingEndsTest, WorkThatFailsOnAStreamEndsAll) {
  EXPECT_EQ(ErrorOf(2,
                    [](const World& world) {
                      const Communicator all(world);
                      const Stream stream;
                      const Event reached;
                      float sum = 0.0f;
                      if (world.rank == 1) {
                        stream.get()->Enqueue([] { throw std::runtime_error("lost"); });
                      }
                      all.AllReduce(&sum, &sum, 1, Reduction::kSum, stream.get());
                      reached.Record(stream.get());
                      reached.Synchronize();
                      ADD_FAILURE() << "rank " << world.rank << " went on";
                    }),
            "lost");
}

TEST(TrainingEndsTest, NamesTheFileOfTheRankThatCannotLoad) {
  const std::string folder =
      ::testing::TempDir() + "/lost_checkpoint_" + std::to_string(getpid());
  const Arguments arguments = TinyModel(2, 1, 2);
  const ModelShape shape = MakeModelShape(arguments, 0, sizeof(Element));
  EXPECT_EQ(ErrorOf(shape.world_size(),
                    [&](const World& world) {
                      Trainer(arguments, world, shape).Save(folder, 1);
                    }),
            "");
  std::filesystem::remove(CheckpointPath(folder, 2));
  const auto load = [&](const World& world) {
    Trainer trainer(arguments, world, shape);
    trainer.RunIteration(trainer.Load(folder));
  };
  EXPECT_EQ(ErrorOf(shape.world_size(), load),
            "checkpoint '" + CheckpointPath(folder, 2) + "': cannot be read");
  std::filesystem::remove_all(folder);
}

class DamagedCheckpointTest : public ::testing::Test {
 protected:
  DamagedCheckpointTest() { Save(folder_, 4); }
  ~DamagedCheckpointTest() override { std::filesystem::remove_all(folder_); }

  void Save(const std::string& folder, int iteration) const {
    EXPECT_EQ(ErrorOf(shape_.world_size(),
                      [&](const World& world) {
                        Trainer(arguments_, world, shape_).Save(folder, iteration);
                      }),
              "");
  }
  // Of a rank that is on its own: others may be played, and say nothing.
  std::string LoadError(int rank, const Arguments& arguments) const {
    const StateArray none{nullptr, 0};
    const Stream stream;
    try {
      LoadCheckpoint({folder_, rank, arguments.bucket_mb},
                     MakeModelShape(arguments, 0, sizeof(Element)), {none},
                     stream.get());
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  std::string LoadError() const {
    return ErrorOf(shape_.world_size(), [&](const World& world) {
      Trainer(arguments_, world, shape_).Load(folder_);
    });
  }
  std::string Path(int rank) const { return CheckpointPath(folder_, rank); }
  static void Overwrite(const std::string& path, long long at,
                        const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file << bytes;
    ASSERT_TRUE(file.good());
  }

  const Arguments arguments_ = TinyModel(2, 1, 2);
  const ModelShape shape_ = MakeModelShape(arguments_, 0, sizeof(Element));
  const std::string folder_ =
      ::testing::TempDir() + "/damaged_checkpoint_" + std::to_string(getpid());
};

TEST_F(DamagedCheckpointTest, IsRefusedWhereverItIsDamaged) {
  const std::string damaged = "checkpoint '" + Path(2) +
                              "': is damaged; load another folder or an undamaged copy";
  std::ifstream file(Path(2), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto size = static_cast<long long>(bytes.size());
  const auto state = static_cast<long long>(bytes.find('\n')) + 1;
  const auto floats = static_cast<long long>(bytes.find('\n', state)) + 1;
  EXPECT_EQ(LoadError(), "");
  // Optimizer steps, the first and the last float, one between, the checksum.
  for (const long long at : {state + 2, floats, size / 2, size - 16, size - 2}) {
    Overwrite(Path(2), at, bytes[at] == '7' ? "5" : "7");
    EXPECT_EQ(LoadError(), damaged) << "at byte " << at << " of " << size;
    Overwrite(Path(2), at, bytes.substr(at, 1));
  }
  EXPECT_EQ(LoadError(), "");
  std::filesystem::resize_file(Path(2), size - 1);
  EXPECT_THAT(LoadError(), ::testing::HasSubstr(Path(2) + "': is cut off"));
}

TEST_F(DamagedCheckpointTest, FilesOfTwoSavesAreRefusedByEveryRank) {
  const std::string earlier = folder_ + "/earlier";
  Save(earlier, 2);
  std::filesystem::rename(CheckpointPath(earlier, 1), Path(1));
  for (int rank = 0; rank < shape_.world_size(); ++rank) {
    EXPECT_EQ(LoadError(rank, arguments_),
              "checkpoint '" + Path(1) + "': holds the state after iteration 2, but '" +
                  Path(0) +
                  "' that after iteration 4; load a folder with the files of one save");
  }
}

TEST_F(DamagedCheckpointTest, NamesTheFirstSettingThatDiffers) {
  EXPECT_EQ(LoadError(0, TinyModel(1, 1, 2)),
            "checkpoint '" + Path(0) +
                "': was saved with '--tp 2', this run has '--tp 1'; go on with what it "
                "was saved with, or load another folder");
  EXPECT_THAT(LoadError(0, TinyModel(2, 1, 2, {"--bucket-mb", "1"})),
              ::testing::HasSubstr("this run has '--bucket-mb 1'"));
  std::filesystem::rename(Path(1), Path(0));
  EXPECT_THAT(LoadError(0, arguments_),
              ::testing::HasSubstr("was saved with 'rank 1', this run has 'rank 0'"));
}

TEST_F(DamagedCheckpointTest, OtherFormatsAreRefused) {
  std::ofstream(Path(0)) << "gpt_trainer checkpoint 2: rank 0 of 4, tp 2\n";
  EXPECT_EQ(LoadError(0, arguments_),
            "checkpoint '" + Path(0) +
                "': has format version 2, this gpt_trainer reads 3; load it with the "
                "one that saved it");
  std::ofstream(Path(0)) << "something else\n";
  EXPECT_EQ(LoadError(0, arguments_),
            "checkpoint '" + Path(0) + "': is no checkpoint of gpt_trainer");
}

TEST(TrainingEndsTest, LooksWhereItSavesBeforeItTrains) {
  const std::string folder =
      ::testing::TempDir() + "/checkpoint_place_" + std::to_string(getpid());
  CheckCheckpointFolder(folder + "/new", 3);
  EXPECT_TRUE(std::filesystem::is_empty(folder + "/new"));
  std::filesystem::create_directories(CheckpointPath(folder, 3));
  EXPECT_THROW(CheckCheckpointFolder(folder, 3), std::runtime_error);
  EXPECT_NO_THROW(CheckCheckpointFolder(folder, 4));
  EXPECT_THROW(CheckCheckpointFolder("/dev/null/folder", 0), std::runtime_error);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gpt
