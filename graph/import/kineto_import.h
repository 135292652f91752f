// Makes the execution graph of a job from the profiles that PyTorch wrote of its ranks.
//
// No recorded start is used, but one per rank: where its window begins beside those of
// the others (ranks of a job do not start a step at one time, and nothing in the window
// says why); a difference of their clocks is in it, see clock_difference.h. All else
// follows from order, costs and waits, see program_writer.h, dependencies.h and
// collective_match.h; what was recorded is kept beside the graph, to compare a replay
// with.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_KINETO_IMPORT_H_
#define VRANK_GRAPH_IMPORT_KINETO_IMPORT_H_

#include <functional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/import/imported_run.h"

namespace vrank::graph {

struct KinetoImportOptions {
  std::vector<std::string> files;             // one per rank
  std::vector<std::string> execution_traces;  // of some of them, in any order
  // Told what is being done, for a person who waits.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// Ranks of the world that no file shows are part of the graph and do nothing; what they
// take part in is counted. Errors name the file, or both files.
absl::StatusOr<ImportedRun> ImportKineto(const KinetoImportOptions& options);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_KINETO_IMPORT_H_
