// Tells, of every rank, what a folded replay found out about the rank played for it.
//
// Identities, members, indices, roots and peers are those of the whole job: an observer
// cannot tell it from an unfolded replay, except by the order of the calls.
//
// Thread rule: the engine's thread.

#ifndef VRANK_GRAPH_FOLD_UNFOLDER_H_
#define VRANK_GRAPH_FOLD_UNFOLDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/fold/quotient.h"
#include "graph/replay/silent_observer.h"

namespace vrank::graph {

// Also notes, for the quotient, which identity a communicator goes by.
class Unfolder : public SilentObserver {
 public:
  // `ranges` and `operations` (of communicators, and their creation) are told of all
  // ranks, `played` of the engine's own view. Each may be nullptr. All outlive this.
  Unfolder(const ResolvedJob* job, Quotient* quotient, EngineObserver* ranges,
           EngineObserver* operations, EngineObserver* played);

  void OnRange(int32_t rank, uint32_t name, bool begin, Stamp host) override;
  void OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                       uint32_t member, int32_t rank, const CollectiveCall& call,
                       Stamp arrival, Stamp end) override;
  void OnTransferEnd(const std::string& communicator, uint32_t from, uint32_t to,
                     uint32_t sequence, uint64_t bytes, bool is_send, int32_t rank,
                     Stamp arrival, Stamp end) override;
  void OnCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                      std::span<const int32_t> members, uint32_t index) override;

 private:
  struct Member {
    uint32_t instance, index;
    // Whom this one sends to (true) or receives from, by place in the quotient. Empty:
    // not looked for yet.
    std::map<std::pair<uint32_t, bool>, uint32_t> peers;
  };
  // Whom a member of a quotient stands for.
  std::vector<Member>& StandingFor(const QuotientCommunicator& communicator,
                                   uint32_t place);
  uint32_t RealPeer(const QuotientCommunicator& communicator, uint32_t place,
                    bool is_send, Member& member) const;
  // World ranks of an instance's members.
  const std::vector<int32_t>& MembersOf(uint32_t instance);
  int32_t WorldRank(uint32_t rank) const { return job_->job.ranks[rank].world_rank; }

  const ResolvedJob* job_;
  Quotient* quotient_;
  EngineObserver *ranges_, *operations_, *played_;
  std::vector<std::vector<uint32_t>> ranks_of_;  // by colour
  std::map<const QuotientCommunicator*, std::vector<std::vector<Member>>> standing_;
  std::vector<std::vector<int32_t>> members_of_;  // by instance
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FOLD_UNFOLDER_H_
