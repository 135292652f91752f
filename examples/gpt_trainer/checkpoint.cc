// Arrays pass through a few megabytes of page-locked memory.

#include "examples/gpt_trainer/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace gpt {
namespace {

constexpr long long kStagedFloats = 2 << 20;

// What two runs have in common that may share a file.
std::string Identity(const ModelShape& shape, int rank) {
  std::ostringstream text;
  text << "gpt_trainer checkpoint 1: rank " << rank << " of " << shape.world_size()
       << ", tp " << shape.tp << ", cp " << shape.cp << ", pp " << shape.pp << " x "
       << shape.virtual_stages << ", dp " << shape.dp << ", layers " << shape.layers
       << ", hidden " << shape.hidden << ", heads " << shape.heads << ", sequence "
       << shape.sequence << ", vocabulary " << shape.vocab;
  return text.str();
}

[[noreturn]] void Refuse(const std::string& path, const std::string& why) {
  throw std::runtime_error("checkpoint '" + path + "': " + why);
}

// copy(array, first, count) for pieces that fit into the staging memory.
template <typename Copy>
void InPieces(const std::vector<StateArray>& arrays, Copy copy) {
  for (const StateArray& array : arrays) {
    for (long long first = 0; first < array.elements; first += kStagedFloats) {
      copy(array.data + first, std::min(kStagedFloats, array.elements - first));
    }
  }
}

}  // namespace

std::string CheckpointPath(const std::string& folder, int rank) {
  char name[32];
  std::snprintf(name, sizeof(name), "rank_%05d.ckpt", rank);
  return (std::filesystem::path(folder) / name).string();
}

void SaveCheckpoint(const std::string& path, const ModelShape& shape, int rank,
                    const TrainingState& state, const std::vector<StateArray>& arrays,
                    StreamHandle stream) {
  const std::string unfinished = path + ".tmp";
  std::error_code error;  // a failure shows when the file is opened
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  std::ofstream file(unfinished, std::ios::binary);
  file.precision(9);  // a float survives
  file << Identity(shape, rank) << '\n'
       << state.next_iteration << ' ' << state.optimizer_steps << ' '
       << state.loss_scale << ' ' << state.good_steps << '\n';
  const PinnedArray<float> staging(kStagedFloats);
  const Event copied;
  InPieces(arrays, [&](const float* data, long long count) {
    CopyToHost(staging.data(), data, count * sizeof(float), stream);
    copied.Record(stream);
    copied.Synchronize();
    file.write(reinterpret_cast<const char*>(staging.data()),
               static_cast<std::streamsize>(count * sizeof(float)));
  });
  file.close();
  if (!file) {
    Refuse(unfinished, "cannot be written");
  }
  std::filesystem::rename(unfinished, path, error);
  if (error) {
    Refuse(path, error.message());
  }
}

TrainingState LoadCheckpoint(const std::string& path, const ModelShape& shape, int rank,
                             const std::vector<StateArray>& arrays,
                             StreamHandle stream) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    Refuse(path, "cannot be read");
  }
  std::string identity;
  std::getline(file, identity);
  if (identity != Identity(shape, rank)) {
    Refuse(path, "holds '" + identity + "', this is '" + Identity(shape, rank) + "'");
  }
  TrainingState state;
  file >> state.next_iteration >> state.optimizer_steps >> state.loss_scale >>
      state.good_steps;
  file.ignore();  // the end of the line
  if (!file) {
    Refuse(path, "is cut off");
  }
  const PinnedArray<float> staging(kStagedFloats);
  const Event copied;
  InPieces(arrays, [&](float* data, long long count) {
    file.read(reinterpret_cast<char*>(staging.data()),
              static_cast<std::streamsize>(count * sizeof(float)));
    if (!file) {
      Refuse(path, "is cut off");
    }
    CopyToDevice(data, staging.data(), count * sizeof(float), stream);
    copied.Record(stream);
    copied.Synchronize();  // before the staging memory is filled again
  });
  if (file.peek() != std::ifstream::traits_type::eof()) {
    Refuse(path, "is longer than this rank's state");
  }
  return state;
}

}  // namespace gpt
