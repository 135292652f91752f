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
// ones where the system has them. A chunk can claim anything, so rows get at most
// `most_bytes`, or eight times what is there.
template <typename Row>
void MakeRoom(uint64_t times, size_t before, uint64_t most_bytes,
              std::vector<Row>* rows) {
  const uint64_t added = rows->size() - before, left = rows->capacity() - rows->size();
  // Some more, so that it is not short by a few at the end, when moving costs most.
  const uint64_t wanted = added * times + added * times / 16;
  if (left >= wanted || (left >= added && rows->size() > rows->capacity() / 8))
    return;
  const uint64_t most = std::max<uint64_t>(most_bytes / sizeof(Row), 7 * rows->size());
  rows->reserve(rows->size() + static_cast<size_t>(std::min(wanted, most)));
  constexpr uintptr_t kLargePage = uintptr_t{2} << 20;
  const auto at = reinterpret_cast<uintptr_t>(rows->data());
  const uintptr_t begin = (at + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t end = (at + rows->capacity() * sizeof(Row)) / kLargePage * kLargePage;
  if (begin < end)  // a hint: it may fail
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_ROW_MEMORY_H_
