// How a gap is found again in another run: by the calls of its thread before it.
//
// A *gap* is what a thread computes between two calls that its program makes anyway
// (anchors): CUDA, NCCL, sleeps, readings of the clock. Its keys are made of the past
// alone, so that it is known when it begins, and of nothing that another job of the
// same program changes: no sizes, no addresses, no ranks.
//
// Equal anchors in a row are one *stretch*: libraries ask for the device, or launch one
// kernel, many times over. The longest key includes the lengths of the last stretches,
// so that the gap behind an optimizer's last launch has another key than those between
// its launches.
//
// An anchor that is not followed by what followed it in the recorded run is found by
// fewer stretches before it, down to its kind.
//
// What follows is chance where a program does something in some iterations only: it
// reads the clock for a log in every tenth one. So the kind of the anchor at which a
// gap ends is recorded beside its key, and what differs by it passes there.
//
// Thread rule: one thread.

#ifndef VRANK_BASE_GUEST_ANCHOR_HISTORY_H_
#define VRANK_BASE_GUEST_ANCHOR_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace vrank {

// How many stretches before a gap a key is made of; 0: the kind of the last anchor.
inline constexpr std::array<int, 4> kAnchorDepths = {8, 3, 1, 0};

inline constexpr uint64_t MixHash(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b) * 0x9e3779b97f4a7c15;
  x ^= x >> 32;
  return x * 0xd6e8feb86659fd93 + b;
}

inline constexpr uint64_t HashText(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return MixHash(hash, 0);  // whose last letters reach no high bit
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
// Of what a gap with that key takes if it ends at an anchor of the kind of `end`. Not
// 0.
inline constexpr uint64_t KeyOfEnd(uint64_t key, uint64_t end) {
  return MixHash(key, (end & kAnchorKind) + 1) | 1;
}

class AnchorHistory {
 public:
  // `role`: what the thread is for; threads of equal roles do alike.
  explicit AnchorHistory(uint64_t role)
      : role_(role), met_(new uint64_t[kMetBits / 64]()) {}

  // The thread passes an anchor. Returns the keys of the gap that begins now.
  GapKeys Pass(uint64_t anchor) {
    Stretch& last = stretches_[at_];
    if (anchor == last.anchor) {
      const uint64_t digit = DigitOf(anchor, last.length = NextLength(last.length));
      way_ += digit - std::exchange(last.digit, digit);
    } else {
      at_ = (at_ + 1) % kLongest;
      const uint64_t digit = DigitOf(anchor, 1);
      const Stretch leaves = std::exchange(stretches_[at_], Stretch{anchor, digit, 1});
      way_ = way_ * kBase + digit - leaves.digit * Power(kLongest);
    }
    // Where the thread has come this way before, libraries are loaded and caches are
    // filled: it is another gap than the first time.
    const uint64_t seed = MixHash(role_, Meet(MixHash(role_, way_)) ? 2 : 1);
    GapKeys result{{
        MixHash(seed + 8, way_),
        MixHash(seed + 3,
                anchor + AnchorBefore(1) * kBase + AnchorBefore(2) * Power(2)),
        MixHash(seed + 1, anchor),
        MixHash(seed, anchor & kAnchorKind),
    }};
    static_assert(kAnchorDepths == std::array<int, 4>{8, 3, 1, 0});
    for (uint64_t& key : result.keys)
      key = key != 0 ? key : 1;
    return result;
  }

 private:
  static constexpr int kLongest = kAnchorDepths.front();
  // A way that collides with another one counts as met: with 10,000 ways 4 in 100 do.
  static constexpr uint64_t kMetBits = uint64_t{1} << 18;
  // Longer stretches are as if they went so far: a loop that polls has few keys.
  static constexpr uint64_t kLongestStretch = 1024;
  // Stretches are digits to this base, modulo 2^64: the number of the last eight moves
  // on with each of them.
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15;
  static constexpr uint64_t Power(int exponent) {
    return exponent == 0 ? 1 : kBase * Power(exponent - 1);
  }

  struct Stretch {
    uint64_t anchor = 0, digit = 0, length = 0;
  };
  static constexpr uint64_t NextLength(uint64_t length) {
    return length < kLongestStretch ? length + 1 : length;
  }
  static constexpr uint64_t DigitOf(uint64_t anchor, uint64_t length) {
    return anchor + length * kLengthFactor;
  }
  static constexpr uint64_t kLengthFactor = 0xd6e8feb86659fd93;

  // The anchor of the stretch that was `count` before the last one.
  uint64_t AnchorBefore(int count) const {
    return stretches_[(at_ + 2 * kLongest - count) % kLongest].anchor;
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
  std::array<Stretch, kLongest> stretches_{};
  int at_ = 0;        // the last one
  uint64_t way_ = 0;  // the number of stretches_
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_ANCHOR_HISTORY_H_
