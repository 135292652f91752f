// A rank's training state in a file: two lines of text, then its shards of master
// weights, momentum and variance as floats, then a line with the CRC-32 of all that.
//
// Every rank writes a file of its own and takes its state from that alone: a run goes
// on with the layout, experts and buckets that it was saved with. A file appears under
// its name only when it is complete.

#ifndef EXAMPLES_GPT_TRAINER_CHECKPOINT_H_
#define EXAMPLES_GPT_TRAINER_CHECKPOINT_H_

#include <string>
#include <vector>

#include "examples/gpt_trainer/device/device.h"
#include "examples/gpt_trainer/model_shape.h"

namespace gpt {

struct TrainingState {
  int next_iteration = 0;
  int optimizer_steps = 0;
  float loss_scale = 1.0f;
  int good_steps = 0;  // of the loss scaler
};

// An array on the device.
struct StateArray {
  float* data;
  long long elements;
};

// The file of a rank, and how the rank's shards lie in it.
struct CheckpointFile {
  std::string folder;
  int rank = 0;
  int bucket_mb = 0;  // Arguments::bucket_mb
};
std::string CheckpointPath(const std::string& folder, int rank);

// Makes the folder. Throws std::runtime_error where this rank could not save there, so
// that nobody trains for hours first.
void CheckCheckpointFolder(const std::string& folder, int rank);

// Both wait for the stream. Throw std::runtime_error where the file cannot be written,
// or read, or is damaged, of another rank, shape or format version, or lies beside
// files of ranks of the same job that were saved after another iteration. What a failed
// load leaves in the arrays is undefined.
void SaveCheckpoint(const CheckpointFile& at, const ModelShape& shape,
                    const TrainingState& state, const std::vector<StateArray>& arrays,
                    StreamHandle stream);
TrainingState LoadCheckpoint(const CheckpointFile& at, const ModelShape& shape,
                             const std::vector<StateArray>& arrays,
                             StreamHandle stream);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_CHECKPOINT_H_
