// Reads what torch.profiler writes: Chrome's JSON trace format with Kineto's
// categories and arguments (pytorch/kineto, libkineto/src/output_json.cpp), plain or
// gzip.
//
// The file is read as a stream and never held: memory grows with the rows that are
// kept, about a tenth of the JSON, and not with the file.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_KINETO_READER_H_
#define VRANK_GRAPH_IMPORT_KINETO_READER_H_

#include <string>

#include <absl/status/statusor.h>

#include "graph/import/recording.h"

namespace vrank::graph {

// Errors say "recording 'FILE': byte N ...: what; what to do".
absl::StatusOr<Recording> ReadKineto(const std::string& path);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_KINETO_READER_H_
