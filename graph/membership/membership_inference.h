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

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/group_hint.h"
#include "graph/membership/id_meetings.h"
#include "graph/membership/layout.h"
#include "graph/membership/partial_groups.h"
#include "graph/membership/split_inference.h"
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

  // Of whom unique ids are of one run, so that members of one communicator pass one id;
  // by default all with calls of their own if these are real, and none if they were
  // traced.
  void CompareIdsOf(const std::vector<int32_t>& ranks);

  absl::StatusOr<InitAnswer> Init(const InitCaller& caller,
                                  const Creation& call) override;
  std::string DescribeInit(const InitCaller& caller, const Creation& call,
                           std::vector<int32_t>* awaited) const override;
  absl::StatusOr<std::vector<SplitGroup>> Split(
      std::string_view parent_identity, uint32_t split_sequence,
      std::span<const SplitMember> members) override;

  // What was taken for granted about absent stages, in words; empty where nothing was.
  const std::vector<std::string>& assumptions() const { return assumptions_; }

  // Splits in which no rank with calls of its own took part, nor any that follows one.
  // Somebody did: torch.distributed.new_group splits the world for one group after the
  // other, and who follows made its own when its leader did.
  uint64_t splits_nobody_joined() const { return splits_nobody_joined_; }

  // After the run. An error, with the rank whose calls would tell, where the calls that
  // were seen leave open whether a communicator from a unique id is the group of the
  // layout or one of another layout.
  absl::Status CheckLayoutIsTold() const;

  // Whether some groups were inferred from calls alone, without a hint.
  bool inferred_without_hint() const { return inferred_without_hint_; }

  // The rank that leads `rank`'s class, or -1.
  int32_t LeaderOf(int32_t rank) const;

 private:
  // The processes of a communicator, from one caller's view: how many of its members
  // each of them has, how many processes there are, and the caller's place among them.
  struct Processes {
    uint32_t members_each = 1;
    uint32_t count = 0;
    uint32_t place = 0;
  };
  // "; rank 0 passes it for 4 ranks (its init 0)", for each rank but `known` that waits
  // with what may be the call's id (`what`), and another size; or nothing.
  std::string DescribeOtherSizes(int32_t caller, const Creation& call,
                                 const std::set<int32_t>& known,
                                 const char* what) const;
  absl::StatusOr<Processes> ProcessesOf(int32_t caller, const Creation& call) const;
  // Those processes: a name for them, and the group of the layout that they are.
  struct InitGroup {
    std::string name;
    DimensionSet dimensions = 0;
    uint32_t place = 0;  // the rank's place among them
  };
  absl::StatusOr<InitGroup> FindGroup(int32_t rank, int32_t caller,
                                      const Processes& processes, uint32_t number,
                                      const Creation& call);
  std::shared_ptr<const std::vector<int32_t>> MembersOf(const InitGroup& group,
                                                        int32_t rank,
                                                        uint32_t members_each);
  // Those of the layout that have the caller at that place, and that a hint allows.
  std::vector<DimensionSet> FittingGroups(int32_t caller, const Processes& processes,
                                          uint32_t number) const;
  // "world", "tp@4": a group of the layout.
  std::string NameOf(DimensionSet dimensions, int32_t rank) const;
  // Dimensions of a group smaller than the world.
  absl::StatusOr<DimensionSet> FindInitGroup(int32_t rank, const Processes& processes,
                                             const Creation& call, uint32_t number);
  // membership_by_id.cc. nullopt: the layout tells.
  absl::StatusOr<std::optional<InitAnswer>> InitById(const InitCaller& caller,
                                                     const Processes& processes,
                                                     const Creation& call);
  bool AllCallInThisRun(const std::vector<int32_t>& ranks) const;
  absl::Status Tell(const std::vector<IdMeetings::Call>& members);
  std::string NameOf(const std::vector<IdMeetings::Call>& members,
                     const std::vector<int32_t>& ranks);
  // The group of the layout that these are, in their order; else empty.
  std::string GroupOf(const std::vector<int32_t>& ranks) const;
  absl::Status CheckUniqueId(int32_t rank, const Creation& call,
                             const std::string& identity);
  // Inits that the layout makes one kind of group, smaller than the world: those seen
  // of ranks with calls of their own, and the groups of other layouts that explain all
  // of these as well.
  struct ClaimedInits {
    std::vector<InitObservation> seen;
    std::vector<OtherGroups> others;
  };
  // By the init's number among the rank's, and the dimensions of the group.
  using ClaimKey = std::pair<uint32_t, DimensionSet>;
  void NoteClaimed(const ClaimKey& key, const InitObservation& init);
  // Whether the call of `rank`, if the layout is right, excludes those other groups.
  bool Excludes(int32_t rank, const ClaimKey& key, const ClaimedInits& inits,
                const OtherGroups& other) const;
  std::optional<int32_t> RankThatTells(const ClaimKey& key,
                                       const ClaimedInits& inits) const;
  // `expected`: ranks whose calls are yet to come.
  absl::Status CheckClaim(const ClaimKey& key,
                          const std::vector<int32_t>& expected) const;
  std::vector<int32_t> RanksYetToCall(uint32_t number) const;
  const GroupHint* FindSplitHint(DimensionSet parent, uint32_t number) const;
  const GroupHint* FindInitHint(int32_t caller, uint32_t number) const;
  void NoteInit(int32_t rank, uint32_t number, const Processes& processes,
                const Creation& call);
  bool WillBeTold(int32_t caller, DimensionSet a, DimensionSet b) const;
  // Ranks whose calls have to be seen, too, until one of `sets` is left for `caller`.
  std::vector<int32_t> RanksToDecide(int32_t caller,
                                     const std::vector<DimensionSet>& sets) const;
  absl::Status Undecided(const std::string& subject, int32_t caller, uint32_t number,
                         const std::vector<DimensionSet>& sets) const;

  // Which members pass a colour; decides for those without a call.
  absl::StatusOr<std::vector<bool>> FindJoining(std::span<const SplitMember> members,
                                                const GroupHint* hint,
                                                const std::string& subject);
  // The parent, its sisters where leaders are, and all known calls.
  absl::StatusOr<SplitQuestion> MakeQuestion(std::span<const SplitMember> members,
                                             const std::vector<bool>& joins,
                                             const std::string& subject) const;

  // What was inferred lately: programs that split in a loop ask the same again.
  struct Answered {
    std::vector<int64_t> calls;  // of all members, and the hint
    std::vector<std::vector<uint32_t>> groups;
  };
  std::deque<Answered> answered_;

  Layout layout_;
  std::map<int32_t, int32_t> leaders_;  // by class
  std::vector<GroupHint> hints_;
  std::vector<int32_t> own_calls_;
  CallSource source_;
  std::vector<int32_t> of_one_run_;
  std::vector<std::string> assumptions_;
  uint64_t splits_nobody_joined_ = 0;
  std::map<ClaimKey, ClaimedInits> claimed_;
  std::optional<std::multimap<int64_t, OtherGroups>> other_groups_;  // once asked for
  bool inferred_without_hint_ = false;
  bool all_of_one_run_ = false;
  IdMeetings meetings_;
  // Of ranks of one run, by rank and number of the init: what they have not been told
  // yet, and calls that wait for those of others.
  std::map<std::pair<int32_t, uint32_t>, InitAnswer> met_;
  struct WaitingInit {
    UniqueId id;
    uint32_t ranks = 0;
    std::string group;  // of the layout, where one fits
    bool ambiguous = false;
  };
  std::map<std::pair<int32_t, uint32_t>, WaitingInit> waiting_;
  std::map<std::pair<int32_t, std::string>, uint32_t>
      group_inits_;  // by rank and group
  std::map<std::string, std::shared_ptr<const std::vector<int32_t>>>
      members_of_;  // by group
  struct Stated {
    std::string identity;
    int32_t rank;  // who stated it first
  };
  // Of the latest kInitsWatched ids, and inits of a rank or class: who joins with an
  // older one is far behind all that have met since.
  static constexpr size_t kInitsWatched = 4096;
  // By rank with its own calls and number of its init: what the calls of others told.
  std::map<std::pair<int32_t, uint32_t>, DimensionSet> decided_;
  struct SeenInit {
    int32_t rank = 0;
    uint32_t size = 0;
    uint32_t place = 0;
  };
  // By class and number, of ranks with their own calls.
  std::map<std::pair<int32_t, uint32_t>, std::vector<SeenInit>> inits_of_class_;
  std::map<UniqueId, std::vector<int32_t>> callers_;  // ranks of one run, ascending
  std::deque<UniqueId> called_;                       // oldest first
  std::map<UniqueId, Stated> by_unique_id_;
  std::deque<UniqueId> unique_ids_;  // oldest first
  std::map<std::string, std::pair<UniqueId, int32_t>> by_identity_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_MEMBERSHIP_INFERENCE_H_
