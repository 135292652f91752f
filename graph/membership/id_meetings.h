// Who has called with which unique id: the members of communicators whose ranks all
// call in one run.
//
// One id, one communicator: it is complete once as many ranks have called with the id
// as each of them says that there are, each at a place of its own. In what order ranks
// call with several ids is nothing to it.
//
// An id that NCCL_COMM_ID gave is the same text in all processes (shared_id.h). Callers
// that pass the id of one maker belong together; callers that each pass their own do,
// too, where the texts and the sizes agree, unless another rank has passed theirs.
//
// Memory: calls that wait for others, and the members of the latest kRemembered ids.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_MEMBERSHIP_ID_MEETINGS_H_
#define VRANK_GRAPH_MEMBERSHIP_ID_MEETINGS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "base/guest/protocol.h"

namespace vrank::graph {

using UniqueId = std::array<uint8_t, protocol::kUniqueIdBytes>;

class IdMeetings {
 public:
  static constexpr size_t kRemembered = 4096;

  struct Call {
    int32_t rank = 0;     // world rank
    uint32_t number = 0;  // of its inits
    uint32_t index = 0;   // the place that it passes
    // What the caller's own view makes of the communicator (membership_inference.h).
    std::string group;
    uint32_t repeat = 0;
    bool crosses = false;
  };

  // A rank calls; `ranks`: the size that it passes. The calls of all members by their
  // places, once this one completes them; until then none. Errors: the id has all its
  // members already; another size, or a place that is taken.
  absl::StatusOr<std::vector<Call>> Join(const UniqueId& id, uint32_t ranks,
                                         const Call& call);

  // The calls that wait for others beside one of `rank`'s with this id and size, that
  // one among them; in the order of arrival.
  std::vector<Call> Waiting(const UniqueId& id, uint32_t ranks, int32_t rank) const;

 private:
  // The id, and 0; of callers that pass their own ids: the text that all share, and the
  // size.
  using Key = std::pair<UniqueId, uint32_t>;
  struct Meeting {
    uint32_t ranks = 0;
    std::vector<Call> calls;
  };
  // Ranks that had met with an id, ascending.
  const std::vector<int32_t>* Met(const Key& key) const;
  absl::StatusOr<std::vector<Call>> Add(const Key& key, uint32_t ranks,
                                        const Call& call, bool places_are_own);
  std::vector<Call> Complete(std::map<Key, Meeting>::iterator meeting);
  void Remove(const Key& key, int32_t rank);

  std::map<Key, Meeting> open_;
  std::map<Key, std::vector<int32_t>> met_;
  std::deque<Key> met_keys_;  // oldest first
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_ID_MEETINGS_H_
