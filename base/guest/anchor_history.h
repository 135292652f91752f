// How a gap is found again in another run: by the calls of its thread before it.
//
// A *gap* is what a thread computes between two calls that its program makes anyway
// (anchors): CUDA, NCCL, sleeps, readings of the clock. Its keys are made of the past
// alone, so that it is known when it begins, and of nothing that another job of the
// same program changes: no sizes, no addresses, no ranks.
//
// An anchor that is not followed by what followed it in the recorded run is found by
// fewer anchors before it, down to its kind.
//
// Thread rule: one thread.

#ifndef VRANK_BASE_GUEST_ANCHOR_HISTORY_H_
#define VRANK_BASE_GUEST_ANCHOR_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace vrank {

// How many anchors before a gap a key is made of; 0: the kind of the last one.
inline constexpr std::array<int, 4> kAnchorDepths = {8, 3, 1, 0};

inline constexpr uint64_t HashText(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

inline constexpr uint64_t MixHash(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b) * 0x9e3779b97f4a7c15;
  x ^= x >> 32;
  return x * 0xd6e8feb86659fd93 + b;
}

// The highest 16 bits of an anchor are its kind's (the function), the others those of
// all that is known of it.
inline constexpr uint64_t kAnchorKind = uint64_t{0xffff} << 48;
inline constexpr uint64_t MakeAnchor(std::string_view function) {
  return HashText(function);
}
// ... of the same kind: `what` was called for, a kernel.
inline constexpr uint64_t RefineAnchor(uint64_t anchor, uint64_t what) {
  return (anchor & kAnchorKind) | (MixHash(anchor, what) & ~kAnchorKind);
}

struct GapKeys {
  std::array<uint64_t, kAnchorDepths.size()> keys;  // by kAnchorDepths; none is 0
};

class AnchorHistory {
 public:
  // `role`: what the thread is for; threads of equal roles do alike.
  explicit AnchorHistory(uint64_t role)
      : role_(role), met_(new uint64_t[kMetBits / 64]()) {}

  // The thread passes an anchor. Returns the keys of the gap that begins now.
  GapKeys Pass(uint64_t anchor) {
    newest_ = (newest_ + 1) % kLongest;
    anchors_[newest_] = anchor;
    const uint64_t longest = Hash(role_, kLongest);
    // Where the thread has come this way before, libraries are loaded and caches are
    // filled: it is another gap than the first time.
    const uint64_t seed = MixHash(role_, Meet(longest) ? 2 : 1);
    GapKeys result;
    for (size_t i = 0; i < kAnchorDepths.size(); ++i) {
      const uint64_t key =
          kAnchorDepths[i] == 0
              ? MixHash(seed, (anchor & kAnchorKind) | 1)
              : Hash(MixHash(seed, static_cast<uint64_t>(kAnchorDepths[i])),
                     kAnchorDepths[i]);
      result.keys[i] = key != 0 ? key : 1;
    }
    return result;
  }

 private:
  static constexpr int kLongest = kAnchorDepths.front();
  // A way that collides with another one counts as met: with 10,000 ways 4 in 100 do.
  static constexpr uint64_t kMetBits = uint64_t{1} << 18;

  // Of the last `depth` anchors.
  uint64_t Hash(uint64_t seed, int depth) const {
    for (int i = 0; i < depth; ++i)
      seed = MixHash(seed, anchors_[(newest_ + kLongest - i) % kLongest]);
    return seed;
  }
  // Whether it was met before.
  bool Meet(uint64_t way) {
    uint64_t& word = met_[way % kMetBits / 64];
    const uint64_t bit = uint64_t{1} << way % 64;
    const bool met = (word & bit) != 0;
    word |= bit;
    return met;
  }

  const uint64_t role_;
  const std::unique_ptr<uint64_t[]> met_;
  std::array<uint64_t, kLongest> anchors_{};
  int newest_ = 0;
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_ANCHOR_HISTORY_H_
