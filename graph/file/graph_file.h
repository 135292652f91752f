// .vgraph: an execution graph in a file.
//
//   header    64 bytes: magic, version, sizes, checksums (GraphHeader in graph_file.cc)
//   ops       one array per program, 64-byte aligned, as in memory (struct Op)
//   metadata  protobuf (graph_file.proto), compressed with zstd: ranks, classes,
//             communicators, and what the ops of each program refer to
//
// Ops are mapped and not parsed: opening costs one linear pass that checks checksums
// and every index in every op, because the engine trusts its input. After that the file
// is as good as a graph that was built in memory.
//
// Equal graphs are equal files. Version 1 files stay readable: metadata grows by new
// fields only, and a change of Op is a new version.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_FILE_GRAPH_FILE_H_
#define VRANK_GRAPH_FILE_GRAPH_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/program/execution_graph.h"

namespace vrank::graph {

// The bytes of the file.
absl::StatusOr<std::string> EncodeGraph(const ExecutionGraph& graph);

// Every broken file is one error: "graph 'job.vgraph': ...".
// `bytes` is aligned to 64 bytes; `keep_alive` owns it, and the programs keep that.
absl::StatusOr<ExecutionGraph> DecodeGraph(const std::string& subject,
                                           std::span<const unsigned char> bytes,
                                           std::shared_ptr<const void> keep_alive);

// Written beside its place first, so that a reader never sees half a file.
absl::Status WriteGraph(const ExecutionGraph& graph, const std::string& path);
absl::StatusOr<ExecutionGraph> OpenGraph(const std::string& path);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FILE_GRAPH_FILE_H_
