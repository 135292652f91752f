// Reads a Kineto trace in blocks of whole events, on several threads.
//
// One thread reads the file and cuts it between two events. Others parse the blocks,
// each as a document of its own, in place. A cut may be wrong, where a text or a nested
// list looks like the end of an event. Then a block is no document, and nothing is
// returned; the stream (ReadJson) reads such a file, and any file with an error, and
// words the error.
//
// Memory: the rows and a few blocks.

#ifndef VRANK_GRAPH_IMPORT_KINETO_BLOCKS_H_
#define VRANK_GRAPH_IMPORT_KINETO_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "graph/import/kineto_handler.h"
#include "graph/import/kineto_rows.h"

namespace vrank::graph {

struct KinetoTrace {
  KinetoRows rows;
  TraceHeader header;
  uint64_t events = 0, bytes = 0;
};

// Large enough that a thread's start does not count, small enough for a second-level
// cache.
inline constexpr size_t kKinetoBlock = size_t{1} << 20;

// What the stream would return, or nothing. Files of one block are left to the stream.
std::optional<KinetoTrace> ReadKinetoInBlocks(const std::string& path,
                                              size_t block_bytes);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_KINETO_BLOCKS_H_
