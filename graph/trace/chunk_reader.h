// A .vtrace file chunk by chunk, checked.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_TRACE_CHUNK_READER_H_
#define VRANK_GRAPH_TRACE_CHUNK_READER_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/trace_format.h"

namespace vrank::graph {

class ChunkReader {
 public:
  // `file` is open and outlives the reader; `name` is for messages.
  ChunkReader(FILE* file, std::string name);

  // Reads the next chunk; false at the end of the file, or where a raw file is cut off.
  absl::StatusOr<bool> Next();

  // Of the chunk that Next found, valid until the next Next.
  const trace::ChunkHeader& header() const { return header_; }
  std::string_view records() const { return records_; }

  // How many times what this chunk stores may still follow: by the file's size.
  uint64_t LikeItToCome() const;
  // Of the whole file; 0: not known.
  uint64_t bytes() const { return file_bytes_; }

  // Something is wrong `offset_in_chunk` bytes behind the chunk's header (in the
  // decoded records): DataLoss.
  absl::Status Damaged(uint64_t offset_in_chunk, const std::string& what) const;

 private:
  enum class Got { kAll, kNothing, kPart };
  absl::StatusOr<Got> Read(void* to, size_t bytes);
  absl::Status CheckHeader() const;
  absl::Status CutOff(size_t missing_what_bytes) const;
  absl::Status Decode();
  std::string Place() const;  // "trace 'x.vtrace', offset 48"

  FILE* const file_;
  const std::string name_;
  uint64_t offset_ = 0;        // of the chunk
  uint64_t next_offset_ = 0;   // behind what was read
  const uint64_t file_bytes_;  // 0: not known
  uint32_t chunks_ = 0;
  bool canonical_ = false;
  trace::ChunkHeader header_{};
  // 64-bit words: records are read in place.
  std::vector<uint64_t> stored_, plain_;
  std::string_view records_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_CHUNK_READER_H_
