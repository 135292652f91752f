#include "graph/sweep/cost_rows.h"

#include <sys/mman.h>

#include <new>

namespace vrank::graph {

CostRows::CostRows(size_t numbers) : bytes_(numbers * sizeof(uint32_t)) {
  if (bytes_ == 0)
    return;
  void* const made =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED)
    throw std::bad_alloc();
  madvise(made, bytes_, MADV_HUGEPAGE);  // or not
  numbers_ = static_cast<uint32_t*>(made);
}

CostRows::~CostRows() {
  if (numbers_ != nullptr)
    munmap(numbers_, bytes_);
}

}  // namespace vrank::graph
