// Which ranks of a job make calls of their own, which one of a class the others follow,
// and whose unique ids are of one run.
//
// Thread rule: one thread. Ranks are world ranks. No errors.

#ifndef VRANK_GRAPH_MEMBERSHIP_CALLING_RANKS_H_
#define VRANK_GRAPH_MEMBERSHIP_CALLING_RANKS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/membership/layout.h"
#include "graph/membership/split_question.h"

namespace vrank::graph {

class CallingRanks {
 public:
  // `own_calls`, `source`: as of MembershipInference. `layout` outlives it.
  CallingRanks(const Layout& layout, const std::vector<int32_t>& own_calls,
               CallSource source);

  // The unique ids of these ranks are of one run.
  void CompareIdsOf(const std::vector<int32_t>& ranks);

  const std::vector<int32_t>& own_calls() const { return own_calls_; }
  CallSource source() const { return source_; }
  // The rank that leads `rank`'s class, or -1.
  int32_t LeaderOf(int32_t rank) const;
  const std::map<int32_t, int32_t>& leaders() const { return leaders_; }  // by class

  const std::vector<int32_t>& of_one_run() const { return of_one_run_; }
  bool CallsInThisRun(int32_t rank) const {
    return std::find(of_one_run_.begin(), of_one_run_.end(), rank) != of_one_run_.end();
  }
  bool AllCallInThisRun(const std::vector<int32_t>& ranks) const;
  // All ranks of the job do.
  bool whole_job_calls_in_this_run() const { return all_of_one_run_; }

 private:
  const Layout& layout_;
  std::vector<int32_t> own_calls_;
  CallSource source_;
  std::map<int32_t, int32_t> leaders_;
  std::vector<int32_t> of_one_run_;
  bool all_of_one_run_ = false;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_CALLING_RANKS_H_
