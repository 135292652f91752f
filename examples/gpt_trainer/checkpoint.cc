// Arrays pass through a few megabytes of page-locked memory.

#include "examples/gpt_trainer/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace gpt {
namespace {

constexpr long long kStagedFloats = 2 << 20;

constexpr char kDamaged[] = "is damaged; load another folder or an undamaged copy";
constexpr char kCutOff[] = "is cut off; load another folder or a whole copy";
constexpr std::string_view kStart = "gpt_trainer checkpoint ";
constexpr int kVersion = 3;

// What two runs have in common that may share a file: all that decides which elements a
// rank holds, and in which order, as they are asked for.
std::string Settings(const ModelShape& shape, const CheckpointFile& file) {
  std::ostringstream text;
  text << "--tp " << shape.tp << ", --cp " << shape.cp << ", --pp " << shape.pp
       << ", --virtual-stages " << shape.virtual_stages << ", --dp " << shape.dp
       << ", --layers " << shape.layers << ", --hidden " << shape.hidden << ", --heads "
       << shape.heads << ", --sequence " << shape.sequence << ", --vocab "
       << shape.vocab << ", --experts " << shape.experts << ", --ep " << shape.ep
       << ", --bucket-mb " << file.bucket_mb << ", rank " << file.rank;
  return text.str();
}

[[noreturn]] void Refuse(const std::string& path, const std::string& why) {
  throw std::runtime_error("checkpoint '" + path + "': " + why);
}

// The checksum of bytes that follow those of `sum`.
unsigned long Checksum(unsigned long sum, const void* data, size_t bytes) {
  return crc32_z(sum, static_cast<const Bytef*>(data), bytes);
}

// The last line of a file.
std::string ChecksumLine(unsigned long sum) {
  char line[16];
  std::snprintf(line, sizeof(line), "crc32 %08lx\n", sum);
  return line;
}

// The first of the settings that differs is enough to find out what was loaded.
void CheckSettings(const std::string& path, const std::string& saved,
                   const std::string& expected) {
  const auto next = [](std::istringstream* settings) {
    std::string setting;
    std::getline(*settings >> std::ws, setting, ',');
    return setting;
  };
  std::istringstream those(saved);
  std::istringstream these(expected);
  while (these) {
    const std::string that = next(&those);
    const std::string here = next(&these);
    if (that != here) {
      Refuse(path, "was saved with '" + that + "', this run has '" + here +
                       "'; go on with what it was saved with, or load another folder");
    }
  }
}

struct Header {
  TrainingState state;
  unsigned long checksum = 0;  // of its two lines
};

// Leaves the file behind the header.
Header ReadHeader(const CheckpointFile& at, const ModelShape& shape,
                  std::istream* file) {
  const std::string path = CheckpointPath(at.folder, at.rank);
  std::string identity;
  std::getline(*file, identity);
  std::istringstream words(identity);
  std::string settings;
  int version = 0;
  if (!identity.starts_with(kStart) ||
      !(words.ignore(kStart.size()) >> version).ignore(2)) {
    Refuse(path, "is no checkpoint of gpt_trainer");
  }
  if (version != kVersion) {
    Refuse(path, "has format version " + std::to_string(version) +
                     ", this gpt_trainer reads " + std::to_string(kVersion) +
                     "; load it with the one that saved it");
  }
  std::getline(words, settings);
  CheckSettings(path, settings, Settings(shape, at));

  std::string counters;
  std::getline(*file, counters);
  if (file->eof()) {
    Refuse(path, kCutOff);
  }
  Header header;
  TrainingState& state = header.state;
  if (!(std::istringstream(counters) >> state.next_iteration >> state.optimizer_steps >>
        state.loss_scale >> state.good_steps)) {
    Refuse(path, kDamaged);
  }
  const std::string both = identity + '\n' + counters + '\n';
  header.checksum = Checksum(0, both.data(), both.size());
  return header;
}

// Each rank looks at the files of all, as far as it sees them: where only some ranks
// are started it is not left to the others.
void CheckAreOfOneSave(const CheckpointFile& at, const ModelShape& shape) {
  std::string first_path;
  int first_iteration = 0;
  CheckpointFile of = at;
  for (of.rank = 0; of.rank < shape.world_size(); ++of.rank) {
    const std::string path = CheckpointPath(of.folder, of.rank);
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      continue;
    }
    const int iteration = ReadHeader(of, shape, &file).state.next_iteration;
    if (first_path.empty()) {
      first_path = path;
      first_iteration = iteration;
    } else if (iteration != first_iteration) {
      Refuse(path, "holds the state after iteration " + std::to_string(iteration) +
                       ", but '" + first_path + "' that after iteration " +
                       std::to_string(first_iteration) +
                       "; load a folder with the files of one save");
    }
  }
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
  std::ostringstream header;
  header.precision(9);  // a float survives
  header << kStart << kVersion << ": " << Settings(shape, at) << '\n'
         << state.next_iteration << ' ' << state.optimizer_steps << ' '
         << state.loss_scale << ' ' << state.good_steps << '\n';
  const std::string lines = header.str();
  file << lines;
  unsigned long sum = Checksum(0, lines.data(), lines.size());
  const PinnedArray<float> staging(kStagedFloats);
  const Event copied;
  InPieces(arrays, [&](const float* data, long long count) {
    CopyToHost(staging.data(), data, count * sizeof(float), stream);
    copied.Record(stream);
    copied.Synchronize();
    sum = Checksum(sum, staging.data(), count * sizeof(float));
    file.write(reinterpret_cast<const char*>(staging.data()),
               static_cast<std::streamsize>(count * sizeof(float)));
  });
  file << ChecksumLine(sum);
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
  CheckAreOfOneSave(at, shape);
  const auto [state, header_sum] = ReadHeader(at, shape, &file);
  unsigned long sum = header_sum;
  const PinnedArray<float> staging(kStagedFloats);
  const Event copied;
  InPieces(arrays, [&](float* data, long long count) {
    file.read(reinterpret_cast<char*>(staging.data()),
              static_cast<std::streamsize>(count * sizeof(float)));
    if (!file) {
      Refuse(path, kCutOff);
    }
    sum = Checksum(sum, staging.data(), count * sizeof(float));
    CopyToDevice(data, staging.data(), count * sizeof(float), stream);
    copied.Record(stream);
    copied.Synchronize();  // before the staging memory is filled again
  });
  const std::string expected = ChecksumLine(sum);
  std::string last(expected.size(), ' ');
  if (!file.read(last.data(), static_cast<std::streamsize>(last.size()))) {
    Refuse(path, kCutOff);
  }
  if (file.peek() != std::ifstream::traits_type::eof()) {
    Refuse(path, "is longer than this rank's state");
  }
  if (last != expected) {
    Refuse(path, kDamaged);
  }
  return state;
}

}  // namespace gpt
