// Any bytes as a .vtrace file: nothing may crash, and what is read must come back.

#ifndef VRANK_TESTS_GRAPH_TRACE_TRACE_FUZZ_H_
#define VRANK_TESTS_GRAPH_TRACE_TRACE_FUZZ_H_

#include <cstddef>
#include <cstdint>

namespace vrank::graph {

// The first byte says how to take the rest: as a whole file (0), or as the records of a
// chunk (1 raw, 2 canonical), which get a right header, so that they are looked at.
void FuzzTrace(const uint8_t* data, size_t size);

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_TRACE_TRACE_FUZZ_H_
