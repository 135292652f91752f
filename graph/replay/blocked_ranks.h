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

// An operation, and the world ranks that have to join it.
struct Want {
  std::string what;
  std::vector<int32_t> ranks;
};

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
  // The operation that is awaited from each: "send #3 of communicator 'world'". A rank
  // without one appears by its number alone.
  void AddWant(std::string what, std::vector<int32_t> ranks) {
    wants_.push_back({std::move(what), std::move(ranks)});
  }
  // What `tell` says of the meeting, which adds who is missing there.
  template <typename Tell>
  std::string At(const Meeting& meeting, Tell tell) {
    const auto [told, is_new] = told_.try_emplace(meeting);
    if (is_new) {
      std::vector<int32_t> others;
      std::vector<Want> others_wants;
      others.swap(ranks_);
      others_wants.swap(wants_);
      told->second.text = tell();
      others.swap(ranks_);
      others_wants.swap(wants_);
      told->second.missing = std::move(others);
      told->second.wants = std::move(others_wants);
    }
    meeting_ = &told->second;
    return told->second.text;
  }

  // Those of one rank; another one's come from here on.
  void MoveTo(std::set<int32_t>* awaited, std::vector<Want>* wants) {
    awaited->insert(ranks_.begin(), ranks_.end());
    *wants = std::move(wants_);
    if (meeting_ != nullptr) {
      awaited->insert(meeting_->missing.begin(), meeting_->missing.end());
      wants->insert(wants->end(), meeting_->wants.begin(), meeting_->wants.end());
    }
    Forget();
  }
  void Forget() {
    ranks_.clear();
    wants_.clear();
    meeting_ = nullptr;
  }

 private:
  struct Told {
    std::string text;
    std::vector<int32_t> missing;
    std::vector<Want> wants;
  };
  std::map<Meeting, Told> told_;
  std::vector<int32_t> ranks_;
  std::vector<Want> wants_;
  const Told* meeting_ = nullptr;
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
  std::vector<Want> wants = {};
};

// The texts, each behind those of the ranks that it waits for; rows that wait for each
// other in a circle stand together, each before one that it waits for. Otherwise as
// given. Of more than `limit`, the first, and a line with the number of the others.
std::vector<std::string> LinesFromTheCauseOn(const std::vector<BlockedRanks>& all,
                                             size_t limit);

// "rank 0 waits for rank 1 (send #0 of ...), rank 1 for rank 0 (...)": a shortest
// circle through the first row that waits for itself by way of others, causes first.
// Empty where none does.
std::string DescribeCircle(const std::vector<BlockedRanks>& all);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_BLOCKED_RANKS_H_
