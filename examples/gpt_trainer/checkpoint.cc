// Arrays pass through a few megabytes of page-locked memory.

#include "examples/gpt_trainer/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace gpt {
namespace {

constexpr long long kStagedFloats = 2 << 20;

// What two runs have in common that may share a file: all that decides which elements a
// rank holds, and in which order.
std::string Identity(const ModelShape& shape, const CheckpointFile& file) {
  std::ostringstream text;
  text << "gpt_trainer checkpoint 2: rank " << file.rank << " of " << shape.world_size()
       << ", tp " << shape.tp << ", cp " << shape.cp << ", pp " << shape.pp << " x "
       << shape.virtual_stages << ", dp " << shape.dp << ", layers " << shape.layers
       << ", hidden " << shape.hidden << ", heads " << shape.heads << ", sequence "
       << shape.sequence << ", vocabulary " << shape.vocab << ", experts "
       << shape.experts << " over " << shape.ep << ", buckets of " << file.bucket_mb
       << " MB";
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

void CheckCheckpointFolder(const std::string& folder, int rank) {
  const std::string path = CheckpointPath(folder, rank);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    Refuse(folder, "the folder cannot be made: " + error.message());
  }
  if (std::filesystem::is_directory(path, error)) {
    Refuse(path, "is a folder");
  }
  const std::string unfinished = path + ".tmp";
  errno = 0;
  if (!std::ofstream(unfinished, std::ios::binary)) {
    Refuse(unfinished, std::string("cannot be written: ") + std::strerror(errno));
  }
  std::filesystem::remove(unfinished, error);
}

void SaveCheckpoint(const CheckpointFile& at, const ModelShape& shape,
                    const TrainingState& state, const std::vector<StateArray>& arrays,
                    StreamHandle stream) {
  const std::string path = CheckpointPath(at.folder, at.rank);
  const std::string unfinished = path + ".tmp";
  std::error_code error;  // a failure shows when the file is opened
  std::filesystem::create_directories(at.folder, error);
  std::ofstream file(unfinished, std::ios::binary);
  file.precision(9);  // a float survives
  file << Identity(shape, at) << '\n'
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
    Refuse(unfinished, "cannot be written to its end; is the disk full?");
  }
  std::filesystem::rename(unfinished, path, error);
  if (error) {
    Refuse(path, error.message());
  }
}

TrainingState LoadCheckpoint(const CheckpointFile& at, const ModelShape& shape,
                             const std::vector<StateArray>& arrays,
                             StreamHandle stream) {
  const std::string path = CheckpointPath(at.folder, at.rank);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    Refuse(path, "cannot be read");
  }
  std::string identity;
  std::getline(file, identity);
  if (identity != Identity(shape, at)) {
    Refuse(path, "holds '" + identity + "', this is '" + Identity(shape, at) + "'");
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
