// Reads what torch.profiler writes: Chrome's JSON trace format with Kineto's
// categories and arguments (pytorch/kineto, libkineto/src/output_json.cpp), plain or
// gzip.
//
// The file is read piece by piece: memory grows with the rows that are kept, about a
// tenth of the JSON, and not with the file.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_KINETO_READER_H_
#define VRANK_GRAPH_IMPORT_KINETO_READER_H_

#include <cstddef>
#include <string>

#include <absl/status/statusor.h>

#include "graph/import/kineto_blocks.h"
#include "graph/import/recording.h"

namespace vrank::graph {

// Errors say "recording 'FILE': byte N ...: what; what to do".
// `block_bytes`: the file is cut into such pieces, which are parsed in parallel.
absl::StatusOr<Recording> ReadKineto(const std::string& path,
                                     size_t block_bytes = kKinetoBlock);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_KINETO_READER_H_
