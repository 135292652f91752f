// The groups of a split.
//
// If every member has a call of its own: NCCL's rule, groups by colour, ordered by
// (key, index in the parent). Otherwise they are inferred from the layout and verified
// against every known call (split_inference.h). A follower takes part if its leader
// does.
//
// Thread rule: one thread. Ranks are world ranks. Errors: the calls leave it open, with
// the rank or the flag that would decide.

#ifndef VRANK_GRAPH_MEMBERSHIP_INFERRED_SPLITS_H_
#define VRANK_GRAPH_MEMBERSHIP_INFERRED_SPLITS_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/calling_ranks.h"
#include "graph/membership/group_hint.h"
#include "graph/membership/layout.h"
#include "graph/membership/layout_groups.h"
#include "graph/membership/split_question.h"
#include "graph/replay/membership.h"

namespace vrank::graph {

class InferredSplits {
 public:
  using SplitMember = Membership::SplitMember;
  using SplitGroup = Membership::SplitGroup;

  // All outlive it.
  InferredSplits(const Layout& layout, const LayoutGroups& groups,
                 const CallingRanks& calling)
      : layout_(layout), groups_(groups), calling_(calling) {}

  // As Membership::Split.
  absl::StatusOr<std::vector<SplitGroup>> Split(std::string_view parent_identity,
                                                uint32_t split_sequence,
                                                std::span<const SplitMember> members);

  // As in MembershipInference; of splits.
  const std::vector<std::string>& assumptions() const { return assumptions_; }
  uint64_t nobody_joined() const { return nobody_joined_; }
  bool inferred_without_hint() const { return inferred_without_hint_; }

 private:
  // Which members pass a colour; decides for those without a call.
  absl::StatusOr<std::vector<bool>> FindJoining(std::span<const SplitMember> members,
                                                const GroupHint* hint,
                                                const std::string& subject);
  // The parent, its sisters where leaders are, and all known calls.
  absl::StatusOr<SplitQuestion> MakeQuestion(std::span<const SplitMember> members,
                                             const std::vector<bool>& joins,
                                             const std::string& subject) const;
  std::vector<SplitGroup> GroupsByHint(std::span<const SplitMember> members,
                                       const std::vector<bool>& joins,
                                       const GroupHint& hint) const;

  // What was inferred lately: programs that split in a loop ask the same again.
  struct Answered {
    std::vector<int64_t> calls;  // of all members, and the hint
    std::vector<std::vector<uint32_t>> groups;
  };

  const Layout& layout_;
  const LayoutGroups& groups_;
  const CallingRanks& calling_;
  std::deque<Answered> answered_;
  std::vector<std::string> assumptions_;
  uint64_t nobody_joined_ = 0;
  bool inferred_without_hint_ = false;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_INFERRED_SPLITS_H_
