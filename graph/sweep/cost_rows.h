// Rows of costs (SweepLanes::own): hundreds of kilobytes per rank, written once and
// read from front to back. They are asked of the system in its large pages, where it
// has such, because its small ones take as long to make as the rows.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_SWEEP_COST_ROWS_H_
#define VRANK_GRAPH_SWEEP_COST_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vrank::graph {

class CostRows {
 public:
  CostRows() = default;
  // Zeros. Throws std::bad_alloc.
  explicit CostRows(size_t numbers);
  CostRows(CostRows&& other) noexcept { *this = std::move(other); }
  CostRows& operator=(CostRows&& other) noexcept {
    std::swap(numbers_, other.numbers_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~CostRows();

  uint32_t* data() { return numbers_; }
  const uint32_t* data() const { return numbers_; }  // nullptr: there are none

 private:
  uint32_t* numbers_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_COST_ROWS_H_
