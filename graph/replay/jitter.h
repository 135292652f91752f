// Work that takes a little more or less time: a function of (seed, rank, node).
//
// The n-th work (OpKind::kWork) of a rank takes its duration, give or take up to
// `parts_per_million`, uniformly. Nothing is stored and nothing depends on the order of
// evaluation, so every executor draws the same.
//
// Four works share one hash of 64 bits: a draw is 52 bits of it (what vector units
// multiply by at once), the next one the same after a rotation by 16, so that the
// leading 16 bits of the four are different bits of the hash.
//
// Ranks and fours of works are hashed by splitmix64's finaliser (Steele et al., OOPSLA
// 2014), each once. Both together, which is done for each of them, need less: their
// difference is random already, and one multiplication between two folds is enough to
// break up what is linear in it. jitter_test.cc holds the distribution.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_REPLAY_JITTER_H_
#define VRANK_GRAPH_REPLAY_JITTER_H_

#include <bit>
#include <cstdint>

namespace vrank::graph {

struct Jitter {
  uint32_t parts_per_million = 0;  // at most kWhole; 0: none
  uint64_t seed = 0;

  static constexpr uint32_t kWhole = 1'000'000;
  bool on() const { return parts_per_million != 0; }
  friend bool operator==(const Jitter&, const Jitter&) = default;

  static constexpr uint64_t kFactor = 0x94d049bb133111eb;
  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * kFactor;
    return x ^ (x >> 31);
  }
  uint64_t RankKey(int32_t world_rank) const {
    return Mix(Mix(seed + 0x9e3779b97f4a7c15) + static_cast<uint32_t>(world_rank));
  }
  // Of works 4 * four .. 4 * four + 3.
  static uint64_t FourKey(uint64_t four) { return Mix(~four); }
  static uint64_t Bits(uint64_t rank_key, uint64_t four_key) {
    uint64_t x = rank_key ^ four_key;
    x = (x ^ (x >> 32)) * kFactor;
    return x ^ (x >> 32);
  }
  // Uniform over kDrawBits bits.
  static constexpr int kDrawBits = 52;
  static uint64_t Draw(uint64_t rank_key, uint64_t work) {
    const uint64_t bits = Bits(rank_key, FourKey(work / 4));
    return std::rotl(bits, static_cast<int>(work % 4) * 16) &
           ((uint64_t{1} << kDrawBits) - 1);
  }

  // A duration of `ns` becomes lowest + width * draw / 2^52.
  struct Span {
    int64_t lowest = 0, width = 0;
  };
  Span SpanOf(int64_t ns) const {
    const int64_t whole = kWhole;
    const int64_t part =
        ns / whole * parts_per_million + ns % whole * parts_per_million / whole;
    return {ns - part, 2 * part};
  }
  static int64_t At(const Span& span, uint64_t draw) {
    // In parts that fit: width = 2^32 * a + b, draw = 2^20 * c + d. The rests of both
    // sums are lost: 1 ns in widths of more than four seconds.
    const uint64_t b = static_cast<uint64_t>(span.width) & 0xffffffff;
    const uint64_t a = static_cast<uint64_t>(span.width) >> 32;
    const uint64_t c = draw >> 20, d = draw & 0xfffff;
    return span.lowest + static_cast<int64_t>(a * c + (a * d >> 20) +
                                              ((b * c + (b * d >> 20)) >> 32));
  }
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_JITTER_H_
