// The order in which waits are told: from the cause on.
//
// Thread rule: plain values; pure function.

#ifndef VRANK_GRAPH_REPLAY_BLOCKED_RANKS_H_
#define VRANK_GRAPH_REPLAY_BLOCKED_RANKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace vrank::graph {

// Whom one rank after the other waits for, while the waits are described. Thousands may
// wait at one meeting: what is told of it, and who is missing, is found once.
class Awaited {
 public:
  // Kind, communicator, number there.
  using Meeting = std::tuple<uint32_t, uint32_t, uint32_t>;

  void Add(int32_t rank) { ranks_.push_back(rank); }
  void Add(std::span<const int32_t> ranks) {
    ranks_.insert(ranks_.end(), ranks.begin(), ranks.end());
  }
  // What `tell` says of the meeting, which adds who is missing there.
  template <typename Tell>
  std::string At(const Meeting& meeting, Tell tell) {
    const auto [told, is_new] = told_.try_emplace(meeting);
    if (is_new) {
      std::vector<int32_t> others;
      others.swap(ranks_);
      told->second.text = tell();
      others.swap(ranks_);
      told->second.missing = std::move(others);
    }
    missing_ = &told->second.missing;
    return told->second.text;
  }

  // Those of one rank; another one's come from here on.
  void MoveTo(std::set<int32_t>* awaited) {
    awaited->insert(ranks_.begin(), ranks_.end());
    if (missing_ != nullptr)
      awaited->insert(missing_->begin(), missing_->end());
    Forget();
  }
  void Forget() {
    ranks_.clear();
    missing_ = nullptr;
  }

 private:
  struct Told {
    std::string text;
    std::vector<int32_t> missing;
  };
  std::map<Meeting, Told> told_;
  std::vector<int32_t> ranks_;
  const std::vector<int32_t>* missing_ = nullptr;
};

// "0-3, 8" of world ranks in any order; of many the first, and how many more.
std::string RankList(std::vector<int32_t> ranks);
// "once", "3 times".
std::string Times(uint64_t count);

// Ranks that wait for the same.
struct BlockedRanks {
  std::vector<int32_t> ranks;  // world ranks
  std::set<int32_t> awaited;   // world ranks; those that have ended are in no other row
  std::string text;            // "ranks 0, 1: host waits for ..."
};

// The texts, each behind those of the ranks that it waits for; rows that wait for each
// other in a circle stand together, each before one that it waits for. Otherwise as
// given. Of more than `limit`, the first, and a line with the number of the others.
std::vector<std::string> LinesFromTheCauseOn(const std::vector<BlockedRanks>& all,
                                             size_t limit);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_BLOCKED_RANKS_H_
