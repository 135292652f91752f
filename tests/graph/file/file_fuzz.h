// Any bytes as a .vgraph or .vkernels file: nothing may crash, and what is read must
// come back.

#ifndef VRANK_TESTS_GRAPH_FILE_FILE_FUZZ_H_
#define VRANK_TESTS_GRAPH_FILE_FILE_FUZZ_H_

#include <cstddef>
#include <cstdint>

namespace vrank::graph {

// The first byte says how to take the rest:
//   0  as a whole .vgraph file
//   1  as the ops and the metadata of one, which get right checksums, so that they are
//      looked at: a byte with the number of ops, the ops, the metadata as protobuf
//   2  as a whole .vkernels file
//   3  as the message of one, which gets a right checksum
void FuzzGraphFiles(const uint8_t* data, size_t size);

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_FILE_FILE_FUZZ_H_
