// What a slice holds, for `vrank build --list`: also of one that a killed rank left
// behind, up to its last whole chunk, and of files that cannot be read.
//
// Thread rule: reads files, keeps no state.

#ifndef VRANK_TOOLS_SLICES_SLICE_CONTENTS_H_
#define VRANK_TOOLS_SLICES_SLICE_CONTENTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vrank::tools {

struct SliceContents {
  std::string file;
  int32_t rank = -1;  // -1: the file does not say, since its slice has not ended
  int32_t world_size = 0;
  std::string layout, gpu;
  bool complete = true;                         // false: it ends before the program did
  uint64_t calls = 0, kernels = 0, copies = 0;  // memsets count as copies
  uint64_t collectives = 0, transfers = 0, communicators = 0;
  uint64_t ranges = 0;      // that were begun
  std::string open_range;   // the innermost one that did not end; empty: none
  int64_t duration_ns = 0;  // from the first call to the last
  // CPU time of the program between calls, and where it came from ("measured",
  // "recorded"); 0 and empty: the slice has none.
  int64_t host_time_ns = 0;
  std::string host_time_source;
  uint64_t dropped = 0;  // records that CUPTI or the tracer lost
  std::string error;     // the file is empty, damaged or no trace; empty: it is not
};

// Of files that cannot be read, too: `error` says why.
std::vector<SliceContents> ReadContents(const std::vector<std::string>& files);

std::string ContentsText(const std::vector<SliceContents>& contents);
std::string ContentsJson(const std::vector<SliceContents>& contents);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_SLICES_SLICE_CONTENTS_H_
