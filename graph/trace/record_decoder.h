// Records of a .vtrace file as rows.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_TRACE_RECORD_DECODER_H_
#define VRANK_GRAPH_TRACE_RECORD_DECODER_H_

#include <absl/status/status.h>

#include "graph/trace/chunk_reader.h"
#include "graph/trace/raw_rows.h"

namespace vrank::graph {

// Adds the records of the reader's chunk to *rows.
absl::Status DecodeRecords(const ChunkReader& chunk, RawRows* rows);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_RECORD_DECODER_H_
