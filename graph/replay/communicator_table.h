// A rank's communicators by the program's numbers, of which a long run has millions
// while few are alive.
//
// The first numbers, which is all of a training job, are an array, since every
// operation looks its communicator up. Later ones are forgotten once nobody will use
// them; a number without an entry is one that was never created, or is long gone.
//
// Thread rule: plain data of the engine.

#ifndef VRANK_GRAPH_REPLAY_COMMUNICATOR_TABLE_H_
#define VRANK_GRAPH_REPLAY_COMMUNICATOR_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graph/program/pool.h"
#include "graph/replay/stamp.h"

namespace vrank::graph {

// A rank's view of a communicator.
struct LocalCommunicator {
  enum class State : uint8_t { kUnused, kForming, kBound, kNoMember, kReleased };
  State state = State::kUnused;
  uint32_t communicator = kNone;
  uint32_t index = 0;
  // Where its operations meet: there, or in a communicator that stands for it
  // (folding.h).
  uint32_t played = kNone;
  uint32_t place = 0;
  uint32_t collectives = 0;  // issued so far
  uint32_t splits = 0;
  uint32_t last_future = kNone;  // the last operation, while pending
  Stamp last_end;                // ... else its end
  // Given up while operations were pending: where nothing else moves these end, not
  // before this.
  bool aborted = false;
  Stamp aborted_at;
};

class CommunicatorTable {
 public:
  // Numbers below this are never forgotten.
  static constexpr uint32_t kFirstNumbers = 512;

  // As a vector's, so that the engine's check of numbers serves both.
  size_t size() const { return size_; }
  void resize(size_t numbers) {
    size_ = numbers;
    first_.resize(std::min<size_t>(numbers, kFirstNumbers));
  }
  // REQUIRES: number < size(). The entry is made where there is none.
  LocalCommunicator& operator[](uint32_t number) {
    return number < first_.size() ? first_[number] : later_[number];
  }
  const LocalCommunicator& operator[](uint32_t number) const {
    static const LocalCommunicator kUnused;
    if (number < first_.size())
      return first_[number];
    const auto found = later_.find(number);
    return found != later_.end() ? found->second : kUnused;
  }
  void Forget(uint32_t number) {
    if (number >= kFirstNumbers)
      later_.erase(number);
  }
  // Calls visit(number, entry) for every entry.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (uint32_t number = 0; number < first_.size(); ++number)
      visit(number, first_[number]);
    for (const auto& [number, entry] : later_)
      visit(number, entry);
  }
  size_t entries() const { return first_.size() + later_.size(); }

 private:
  size_t size_ = 0;
  std::vector<LocalCommunicator> first_;
  std::unordered_map<uint32_t, LocalCommunicator> later_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_COMMUNICATOR_TABLE_H_
