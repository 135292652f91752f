// Any bytes as a profile or an execution trace: nothing may crash or hang, errors name
// the file, and what is imported is a graph that can be written and opened.

#ifndef VRANK_TESTS_GRAPH_IMPORT_IMPORT_FUZZ_H_
#define VRANK_TESTS_GRAPH_IMPORT_IMPORT_FUZZ_H_

#include <cstddef>
#include <cstdint>

namespace vrank::graph {

// The first byte says how to take the rest: as the file (0), as an execution trace (1),
// or as choices from which a profile is put together that is JSON and has the right
// members, with any values (2), since random bytes hardly ever get that far.
void FuzzImport(const uint8_t* data, size_t size);

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_IMPORT_IMPORT_FUZZ_H_
