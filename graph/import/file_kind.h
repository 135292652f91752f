// Files of other kinds than JSON that are given where JSON is expected, by how they
// begin.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_FILE_KIND_H_
#define VRANK_GRAPH_IMPORT_FILE_KIND_H_

#include <string_view>

namespace vrank::graph {

// "it is a zip archive; unpack it, ..." for the first bytes of a file (after gzip's
// decompression). Empty: they may be JSON.
std::string_view DescribeOtherKind(std::string_view head);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_FILE_KIND_H_
