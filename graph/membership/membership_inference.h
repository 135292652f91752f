// Says who belongs to a communicator, from the calls of the ranks that have some.
//
// Ranks with calls of their own (real ones, or played from a recording) state what they
// pass. Followers run the program of their class's leader, so what they would pass is
// not known: a leader's colour is the leader's. Absent ranks have no call at all.
//
//   Init   Where all ranks call in this run, the unique id tells: the members are those
//          who pass it, each at the place that it passes, in whatever order they call
//          with several (id_meetings.h). The same where some are absent or follow, and
//          the group that the layout says, or as many ranks as the caller states where
//          it has none, all call in this run. Otherwise the layout tells: a
//          communicator of all ranks is the world, in rank order: a rank whose index is
//          not its rank is an error, since the order of the others would be unknown. A
//          smaller one is the one group of the layout that has the caller, the stated
//          size and the stated place of the caller. Unique ids must agree: one id, one
//          group. Where processes have several members each (a GPU per member), these
//          are neighbours in the communicator, and processes stand where ranks would;
//          one whose members are all in one process is that process's own. Where
//          several groups have that size and place, others tell: those of its class,
//          which are at other places, and those that pass the same id. It is
//          kUnavailable until they have, and an error that names them if they have no
//          calls of their own. A name is a group of the layout, and how many the caller
//          had made of it before; a communicator that ids alone tell has the name that
//          its first member's calls give it. Where these cannot tell, since it is no
//          group of the layout or an init before it is still open, the name says which
//          of that member's inits it is: "ranks 0-2#init1".
//          A pair whose ends the store names is those two (pair_inits.h).
//   Split  If every member has a call of its own: NCCL's rule, groups by colour,
//   ordered by
//          (key, index in the parent). Otherwise the groups are inferred from the
//          layout and verified against every known call (split_inference.h). A follower
//          takes part if its leader does.
//
// What cannot be told is an error with the rank or the flag that would tell it; nothing
// is guessed. Answers depend on the calls only, never on the order of arrival.
//
// Thread rule: one thread, the engine's.

#ifndef VRANK_GRAPH_MEMBERSHIP_MEMBERSHIP_INFERENCE_H_
#define VRANK_GRAPH_MEMBERSHIP_MEMBERSHIP_INFERENCE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/membership/calling_ranks.h"
#include "graph/membership/group_hint.h"
#include "graph/membership/group_repeats.h"
#include "graph/membership/inferred_splits.h"
#include "graph/membership/init_group_choice.h"
#include "graph/membership/inits_by_id.h"
#include "graph/membership/layout.h"
#include "graph/membership/layout_claims.h"
#include "graph/membership/layout_groups.h"
#include "graph/membership/pair_inits.h"
#include "graph/membership/seen_inits.h"
#include "graph/membership/split_question.h"
#include "graph/membership/unique_id_check.h"
#include "graph/replay/membership.h"

namespace vrank::graph {

class MembershipInference : public Membership {
 public:
  // `own_calls`: the ranks with calls of their own, which are real or were traced; the
  // leader.h says which one of a class leads its followers. `source`: how they came by
  // them, for messages.
  MembershipInference(Layout layout, const std::vector<int32_t>& own_calls,
                      std::vector<GroupHint> hints = {},
                      CallSource source = CallSource::kReal);
  // Parts refer to each other.
  MembershipInference(const MembershipInference&) = delete;
  MembershipInference& operator=(const MembershipInference&) = delete;

  // Of whom unique ids are of one run, so that members of one communicator pass one id;
  // by default all with calls of their own if these are real, and none if they were
  // traced.
  void CompareIdsOf(const std::vector<int32_t>& ranks) { calling_.CompareIdsOf(ranks); }

  absl::StatusOr<InitAnswer> Init(const InitCaller& caller,
                                  const Creation& call) override;
  void NotePair(const UniqueId& unique_id, const PairEnds& ends) override {
    pairs_.Note(unique_id, ends);
  }
  std::string DescribeInit(const InitCaller& caller, const Creation& call,
                           std::vector<int32_t>* awaited) const override {
    return by_id_.Describe(caller, call, awaited);
  }
  absl::StatusOr<std::vector<SplitGroup>> Split(
      std::string_view parent_identity, uint32_t split_sequence,
      std::span<const SplitMember> members) override {
    return splits_.Split(parent_identity, split_sequence, members);
  }

  // What was taken for granted about absent stages, in words; empty where nothing was.
  const std::vector<std::string>& assumptions() const { return splits_.assumptions(); }

  // Splits in which no rank with calls of its own took part, nor any that follows one.
  // Somebody did: torch.distributed.new_group splits the world for one group after the
  // other, and who follows made its own when its leader did.
  uint64_t splits_nobody_joined() const { return splits_.nobody_joined(); }

  // After the run. An error, with the rank whose calls would tell, where the calls that
  // were seen leave open whether a communicator from a unique id is the group of the
  // layout or one of another layout.
  absl::Status CheckLayoutIsTold() const { return claims_.CheckAll(); }

  // Whether some groups were inferred from calls alone, without a hint.
  bool inferred_without_hint() const {
    return inferred_init_ || splits_.inferred_without_hint();
  }

  // The rank that leads `rank`'s class, or -1.
  int32_t LeaderOf(int32_t rank) const { return calling_.LeaderOf(rank); }

 private:
  // The group of the layout that an init is.
  struct InitGroup {
    std::string name;
    DimensionSet dimensions = 0;
    uint32_t place = 0;  // the rank's place among them
  };

  absl::StatusOr<InitGroup> FindGroup(int32_t rank, int32_t caller,
                                      const InitProcesses& processes, uint32_t number,
                                      const Creation& call);
  absl::StatusOr<InitGroup> FindWorld(int32_t rank, int32_t caller,
                                      const InitProcesses& processes,
                                      const Creation& call) const;
  std::shared_ptr<const std::vector<int32_t>> MembersOf(const InitGroup& group,
                                                        int32_t rank,
                                                        uint32_t members_each);
  absl::Status CheckAgainstOthers(int32_t rank, const InitProcesses& processes,
                                  uint32_t number, const Creation& call,
                                  const InitGroup& group, const std::string& identity);

  const Layout layout_;
  CallingRanks calling_;
  const LayoutGroups groups_;
  SeenInits seen_;
  InitGroupChoice choice_;
  GroupRepeats repeats_;
  InitsById by_id_;
  PairInits pairs_;
  UniqueIdCheck id_check_;
  LayoutClaims claims_;
  InferredSplits splits_;
  std::map<std::string, std::shared_ptr<const std::vector<int32_t>>>
      members_of_;              // by group
  bool inferred_init_ = false;  // a group of an init, without a hint
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_MEMBERSHIP_INFERENCE_H_
