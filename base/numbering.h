// Numbers equal signatures alike, by first appearance.
//
// Thread rule: one thread.

#ifndef VRANK_BASE_NUMBERING_H_
#define VRANK_BASE_NUMBERING_H_

#include <cstdint>

#include <absl/container/flat_hash_map.h>

namespace vrank::graph {

template <class Key>
class NumberingOf {
 public:
  uint32_t operator()(const Key& signature) {
    // Neighbours are often alike.
    if (!numbers_.empty() && signature == last_)
      return last_number_;
    last_ = signature;
    last_number_ = numbers_.try_emplace(signature, size()).first->second;
    return last_number_;
  }
  uint32_t size() const { return static_cast<uint32_t>(numbers_.size()); }

 private:
  absl::flat_hash_map<Key, uint32_t> numbers_;
  Key last_{};
  uint32_t last_number_ = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_BASE_NUMBERING_H_
