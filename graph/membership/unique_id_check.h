// Whether the unique ids that ranks pass agree with the communicators that the layout
// makes of their inits: one id, one group.
//
// Memory: the latest kInitsWatched ids (seen_inits.h).
//
// Thread rule: one thread. Ranks are world ranks. Errors: both ranks, and what each
// passes.

#ifndef VRANK_GRAPH_MEMBERSHIP_UNIQUE_ID_CHECK_H_
#define VRANK_GRAPH_MEMBERSHIP_UNIQUE_ID_CHECK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include <absl/status/status.h>

#include "graph/membership/calling_ranks.h"
#include "graph/membership/id_meetings.h"
#include "graph/membership/layout.h"
#include "graph/schema/op.h"

namespace vrank::graph {

// Whether two ranks may be members of one communicator. Each may have made its id for
// itself where NCCL_COMM_ID gives one to all.
bool MayBeOneId(int32_t rank, UniqueId id, int32_t other_rank, UniqueId other);

class UniqueIdCheck {
 public:
  // Both outlive it.
  UniqueIdCheck(const Layout& layout, const CallingRanks& calling)
      : layout_(layout), calling_(calling) {}

  absl::Status Check(int32_t rank, const Creation& call, const std::string& identity);

 private:
  struct Stated {
    std::string identity;
    int32_t rank;  // that stated it first
  };

  const Layout& layout_;
  const CallingRanks& calling_;
  std::map<UniqueId, Stated> by_unique_id_;
  std::deque<UniqueId> unique_ids_;  // oldest first
  std::map<std::string, std::pair<UniqueId, int32_t>> by_identity_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_UNIQUE_ID_CHECK_H_
