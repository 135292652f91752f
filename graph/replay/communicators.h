// The communicators of all ranks, from their creation until every member has released
// them.
//
// Thread rule: one thread. Communicators are addressed by index, which a later one may
// get again. Errors: FirstError.

#ifndef VRANK_GRAPH_REPLAY_COMMUNICATORS_H_
#define VRANK_GRAPH_REPLAY_COMMUNICATORS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/program/pool.h"
#include "graph/replay/communicator.h"
#include "graph/replay/first_error.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/unmatched_sends.h"

namespace vrank::graph {

template <class Step>
class Communicators {
 public:
  using Comm = Communicator<Step>;

  Communicators(const RankTable& ranks, FirstError& error)
      : ranks_(ranks), error_(error) {}

  Comm& operator[](uint32_t communicator) { return communicators_[communicator]; }
  const Comm& operator[](uint32_t communicator) const {
    return communicators_[communicator];
  }
  // Indices are below.
  uint32_t taken() const { return communicators_.taken(); }

  // An error, and kNone, where a member is neither part of the run nor absent.
  // `joined_by`: the rank whose call states the members.
  uint32_t Open(std::string identity, std::vector<int32_t> members, int32_t joined_by);
  // Drops a communicator that all present members have released.
  void DropIfUnused(uint32_t communicator);
  void Drop(uint32_t communicator) {
    communicators_[communicator] = Comm();
    communicators_.Drop(communicator);
  }

  // Remembers what nothing can meet any more of a communicator that is to be dropped.
  void KeepUnmatched(const Comm& c) { FindUnmatched(c, &unmatched_); }
  // ... of those that have been dropped so far.
  const std::vector<UnmatchedSends>& kept_unmatched() const { return unmatched_; }

  // Arrivals of absent ranks, in collectives, transfers and creations.
  void CountAssumed(uint64_t arrivals) { assumed_arrivals_ += arrivals; }
  uint64_t assumed_arrivals() const { return assumed_arrivals_; }

 private:
  const RankTable& ranks_;
  FirstError& error_;
  Pool<Comm> communicators_;
  std::vector<UnmatchedSends> unmatched_;
  uint64_t assumed_arrivals_ = 0;
};

template <class Step>
uint32_t Communicators<Step>::Open(std::string identity, std::vector<int32_t> members,
                                   int32_t joined_by) {
  std::vector<uint32_t> ranks(members.size(), kNone);
  for (size_t i = 0; i < members.size(); ++i) {
    const uint32_t rank = ranks_.IndexOf(members[i]);
    if (rank == kNone) {
      error_.Report(absl::InvalidArgumentError(
          fmt::format("communicator '{}', created by rank {}: member {} is rank {}, "
                      "which is neither "
                      "real nor played; give its class a real rank or a program, or "
                      "assume it absent",
                      identity, joined_by, i, members[i])));
      return kNone;
    }
    if (rank != RankTable::kAbsent)
      ranks[i] = rank;
  }
  const uint32_t index = communicators_.Take();
  Comm& c = communicators_[index];
  c.Open(std::move(identity), std::move(members), std::move(ranks));
  c.creation.joiners.resize(c.size());
  CountAssumed(c.absentees());
  return index;
}

template <class Step>
void Communicators<Step>::DropIfUnused(uint32_t communicator) {
  const Comm& c = communicators_[communicator];
  if (c.released == c.present && c.operations == 0) {
    KeepUnmatched(c);
    Drop(communicator);
  }
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_COMMUNICATORS_H_
