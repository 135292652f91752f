// What a trace does not tell, counted while its program is built.
//
// Thread rule: one builder. No errors.

#ifndef VRANK_GRAPH_BUILD_LOSS_COUNTS_H_
#define VRANK_GRAPH_BUILD_LOSS_COUNTS_H_

#include <cstdint>
#include <map>
#include <utility>

#include "graph/build/program_builder.h"

namespace vrank::graph {

class LossCounts {
 public:
  void Count(BuildLoss loss, uint64_t amount = 1) {
    if (amount != 0)
      counts_[loss] += amount;
  }
  std::map<BuildLoss, uint64_t> Take() { return std::move(counts_); }

 private:
  std::map<BuildLoss, uint64_t> counts_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_LOSS_COUNTS_H_
