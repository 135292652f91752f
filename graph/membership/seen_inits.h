// The inits that were seen of ranks with calls of their own: by class, since ranks of a
// class do the same, and by unique id.
//
// Memory: the latest kInitsWatched ids, and inits of a class. A rank that joins with an
// older one is far behind all that have met since.
//
// Thread rule: one thread. Ranks are world ranks. No errors.

#ifndef VRANK_GRAPH_MEMBERSHIP_SEEN_INITS_H_
#define VRANK_GRAPH_MEMBERSHIP_SEEN_INITS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "graph/membership/calling_ranks.h"
#include "graph/membership/id_meetings.h"
#include "graph/membership/layout.h"
#include "graph/membership/layout_groups.h"

namespace vrank::graph {

// Of ids, and of inits of a rank or class.
inline constexpr size_t kInitsWatched = 4096;

// Of what is kept by (rank or class, number of the init): drops all but the latest of
// that rank or class.
template <typename Value>
void KeepLatestInits(int32_t of, uint32_t number,
                     std::map<std::pair<int32_t, uint32_t>, Value>* known) {
  if (number >= kInitsWatched) {
    known->erase(
        known->lower_bound({of, 0}),
        known->upper_bound({of, number - static_cast<uint32_t>(kInitsWatched)}));
  }
}

class SeenInits {
 public:
  struct Init {
    int32_t rank = 0;
    uint32_t size = 0;   // in processes
    uint32_t place = 0;  // among them
  };

  // Both outlive it.
  SeenInits(const Layout& layout, const CallingRanks& calling)
      : layout_(layout), calling_(calling) {}

  // `number`: of the rank's inits.
  void Note(int32_t rank, uint32_t number, const InitProcesses& processes,
            const UniqueId& id);

  // Inits with that number of ranks of the caller's class; nullptr: none.
  const std::vector<Init>* OfClass(int32_t caller, uint32_t number) const;
  // Ranks of this run that have passed the id, in the order of their calls; nullptr:
  // none.
  const std::vector<int32_t>* CallersWith(const UniqueId& id) const;
  // Ranks with calls of their own whose init with that number was not seen.
  std::vector<int32_t> RanksYetToCall(uint32_t number) const;

 private:
  const Layout& layout_;
  const CallingRanks& calling_;
  std::map<std::pair<int32_t, uint32_t>, std::vector<Init>> of_class_;
  std::map<UniqueId, std::vector<int32_t>> callers_;
  std::deque<UniqueId> called_;  // oldest first
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_SEEN_INITS_H_
