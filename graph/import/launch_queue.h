// Which launches waited for a place in the launch queue.
//
// The driver holds a fixed number of launches; the host waits where it is full. A
// profiler shows that as launches that take long. They are told from launches that are
// slow for other reasons by what is outstanding when they return: always as much as
// ever (on a V100 1,020 to 1,022 of them, in every one of a thousand such launches).
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_LAUNCH_QUEUE_H_
#define VRANK_GRAPH_IMPORT_LAUNCH_QUEUE_H_

#include <cstdint>
#include <vector>

#include "graph/import/recording.h"

namespace vrank::graph {

// By call. `call_of`: by work, the place of its launch or kNoRow.
std::vector<bool> FindFullQueue(const Recording& recording,
                                const std::vector<uint32_t>& call_of);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_LAUNCH_QUEUE_H_
