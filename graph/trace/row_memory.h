// Memory for rows, which come by the million.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_TRACE_ROW_MEMORY_H_
#define VRANK_GRAPH_TRACE_ROW_MEMORY_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vrank::graph {

// `before` rows became more by a chunk, and the file may hold that `times` more. Memory
// grows at once to what that would take: only rows that come take pages of it, large
// ones where the system has them. A chunk can claim anything, so it grows to at most
// eight times what is there.
template <typename Row>
void MakeRoom(uint64_t times, size_t before, std::vector<Row>* rows) {
  const size_t added = rows->size() - before;
  if (rows->capacity() - rows->size() >= added)
    return;
  rows->reserve(rows->size() + std::min(added * times, 7 * rows->size()));
  constexpr uintptr_t kLargePage = uintptr_t{2} << 20;
  const auto at = reinterpret_cast<uintptr_t>(rows->data());
  const uintptr_t begin = (at + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t end = (at + rows->capacity() * sizeof(Row)) / kLargePage * kLargePage;
  if (begin < end)  // a hint: it may fail
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_ROW_MEMORY_H_
