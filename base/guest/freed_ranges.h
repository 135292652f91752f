// Who freed which part of a pool of stream-ordered memory, and how far its stream had
// come: whoever takes a part over goes on after those who freed it (CUDA's "internal
// dependency"). The virtual device keeps this while the program runs, and the builder
// of graphs finds the same edges again in a trace.
//
// Thread rule: none of its own; the owner locks.

#ifndef VRANK_BASE_GUEST_FREED_RANGES_H_
#define VRANK_BASE_GUEST_FREED_RANGES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace vrank {

struct FreedBy {
  uint32_t lane;
  uint64_t stream_id;  // lanes are used again, ids are not
  uint64_t issued;     // the stream's operations up to the free
};

// Addresses [begin, end).
class FreedRanges {
 public:
  void Add(uint64_t begin, uint64_t end, FreedBy by) { ranges_[begin] = {end, by}; }
  void Clear() { ranges_.clear(); }

  // Whether `owner_of(by)` is a stream other than `stream` for some part of the range.
  // `owner_of` gives the freeing stream while its free may lie in the future, else
  // nullptr.
  template <typename Stream, typename OwnerOf>
  bool HasForeign(uint64_t begin, uint64_t end, const Stream* stream,
                  OwnerOf owner_of) const {
    for (auto it = First(ranges_, begin); it != ranges_.end() && it->first < end;
         ++it) {
      const Stream* owner = owner_of(it->second.by);
      if (owner != nullptr && owner != stream)
        return true;
    }
    return false;
  }

  // Cuts the range out. Calls join(owner) once for each other stream that `stream` has
  // to follow, by address.
  template <typename Stream, typename OwnerOf, typename Join>
  void Take(uint64_t begin, uint64_t end, const Stream* stream, OwnerOf owner_of,
            Join join) {
    std::vector<Stream*> joined;
    auto it = First(ranges_, begin);
    while (it != ranges_.end() && it->first < end) {
      const uint64_t freed_begin = it->first;
      const Freed freed = it->second;
      it = ranges_.erase(it);
      if (freed_begin < begin)
        ranges_[freed_begin] = {begin, freed.by};
      if (freed.end > end)
        ranges_[end] = freed;
      Stream* owner = owner_of(freed.by);
      if (owner != nullptr && owner != stream &&
          std::find(joined.begin(), joined.end(), owner) == joined.end()) {
        join(owner);
        joined.push_back(owner);
      }
    }
  }

 private:
  struct Freed {
    uint64_t end;
    FreedBy by;
  };

  // The first range that reaches beyond `begin`.
  template <typename Map>
  static auto First(Map& ranges, uint64_t begin) {
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second.end > begin)
      --it;
    return it;
  }

  std::map<uint64_t, Freed> ranges_;  // by begin
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_FREED_RANGES_H_
