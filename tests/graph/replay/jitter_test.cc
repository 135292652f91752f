// Jitter must look like chance, and its spans must hold.

#include "graph/replay/jitter.h"

#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "graph/replay/step.h"

namespace vrank::graph {
namespace {

__extension__ using Wide = __int128;

TEST(JitterTest, StaysWithinItsSpan) {
  for (const uint32_t parts : {0u, 1u, 20'000u, 999'999u, Jitter::kWhole}) {
    const Jitter jitter{parts, 7};
    for (const int64_t ns : {int64_t{0}, int64_t{1}, int64_t{999'999},
                             int64_t{5'000'000'000}, int64_t{1} << 60}) {
      const Jitter::Span span = jitter.SpanOf(ns);
      const int64_t part =
          static_cast<int64_t>(static_cast<Wide>(ns) * parts / Jitter::kWhole);
      EXPECT_EQ(span.lowest, ns - part);
      EXPECT_EQ(span.width, 2 * part);
      EXPECT_EQ(Jitter::At(span, 0), span.lowest);
      for (const uint64_t draw : {uint64_t{1}, uint64_t{1} << 51,
                                  (uint64_t{1} << 52) - 1, uint64_t{0xabcdef012345}}) {
        const auto exact =
            span.lowest + static_cast<int64_t>(static_cast<Wide>(span.width) * draw >>
                                               Jitter::kDrawBits);
        const int64_t at = Jitter::At(span, draw);
        EXPECT_LE(at, exact);
        EXPECT_GE(at, exact - (span.width >> 32 == 0 ? 0 : 1));
      }
    }
  }
}

TEST(JitterTest, WithoutPartsChangesNothing) {
  const Jitter none;
  EXPECT_FALSE(none.on());
  EXPECT_EQ(Step::Jittered(12'345, none, none.RankKey(3), 9), 12'345);
}

// Chi-squared over 256 buckets: 255 degrees of freedom, mean 255, deviation 22.6; six
// deviations either way.
void ExpectUniform(const std::array<uint32_t, 256>& buckets, const char* what) {
  uint64_t draws = 0;
  for (const uint32_t count : buckets)
    draws += count;
  const double expected = static_cast<double>(draws) / 256;
  double chi = 0;
  for (const uint32_t count : buckets)
    chi += (count - expected) * (count - expected) / expected;
  EXPECT_GT(chi, 255 - 6 * 22.6) << what;
  EXPECT_LT(chi, 255 + 6 * 22.6) << what;
}

TEST(JitterTest, EveryByteIsUniformOverRanksAndWorks) {
  const Jitter jitter{20'000, 7};
  std::array<std::array<uint32_t, 256>, 4> over{};
  for (int32_t rank = 0; rank < 512; ++rank) {
    for (uint64_t work = 0; work < 1024; ++work) {
      const uint64_t draw = Jitter::Draw(jitter.RankKey(rank), work);
      for (int byte = 0; byte < 4; ++byte)
        ++over[byte][draw >> (20 + 8 * byte) & 0xff];
    }
  }
  for (const auto& buckets : over)
    ExpectUniform(buckets, "byte of a draw");
}

// Differences of neighbours are uniform, too, if neighbours know nothing of each other.
TEST(JitterTest, NeighboursAreIndependent) {
  const Jitter jitter{20'000, 7}, other{20'000, 8};
  std::array<uint32_t, 256> by_rank{}, by_work{}, by_two{}, by_seed{};
  for (int32_t rank = 0; rank < 512; ++rank) {
    for (uint64_t work = 0; work < 1024; ++work) {
      const uint64_t draw = Jitter::Draw(jitter.RankKey(rank), work);
      const auto top = [&](uint64_t next) { return (draw - next) >> 44 & 0xff; };
      ++by_rank[top(Jitter::Draw(jitter.RankKey(rank + 1), work))];
      ++by_work[top(Jitter::Draw(jitter.RankKey(rank), work + 1))];
      ++by_two[top(Jitter::Draw(jitter.RankKey(rank), work + 4))];
      ++by_seed[top(Jitter::Draw(other.RankKey(rank), work))];
    }
  }
  ExpectUniform(by_rank, "ranks");
  ExpectUniform(by_work, "works");
  ExpectUniform(by_two, "works of different hashes");
  ExpectUniform(by_seed, "seeds");
}

// A draw is made of a rank's key and a work's: what is left of that sum would cancel
// out over two ranks and two works.
TEST(JitterTest, RectanglesAreIndependent) {
  const Jitter jitter{20'000, 7};
  for (const int32_t ranks : {1, 2, 8, 256}) {
    for (const uint64_t works : {1, 4, 64}) {
      std::array<uint32_t, 256> top{}, low{}, bits{};
      for (int32_t rank = 0; rank < 512; ++rank) {
        for (uint64_t work = 0; work < 1024; ++work) {
          const auto draw = [&](int32_t r, uint64_t w) {
            return Jitter::Draw(jitter.RankKey(rank + r), work + w);
          };
          const uint64_t sum =
              draw(0, 0) - draw(ranks, 0) - draw(0, works) + draw(ranks, works);
          ++top[sum >> 44 & 0xff];
          ++low[sum & 0xff];
          ++bits[(draw(0, 0) ^ draw(ranks, 0) ^ draw(0, works) ^ draw(ranks, works)) >>
                     36 &
                 0xff];
        }
      }
      ExpectUniform(top, "leading bits of a rectangle");
      ExpectUniform(low, "last bits of a rectangle");
      ExpectUniform(bits, "bits of a rectangle");
    }
  }
}

// A sum over many works must not drift: a bias would show in every iteration.
TEST(JitterTest, HasTheMeanAndDeviationOfItsSpan) {
  const Jitter jitter{Jitter::kWhole / 2, 3};
  const int64_t ns = 1'000'000;
  double sum = 0, squares = 0;
  constexpr int kDraws = 1 << 20;
  for (int i = 0; i < kDraws; ++i) {
    const double off =
        static_cast<double>(Step::Jittered(ns, jitter, jitter.RankKey(i % 1024),
                                           static_cast<uint64_t>(i / 1024)) -
                            ns);
    sum += off;
    squares += off * off;
  }
  // Uniform over +-500,000: deviation 288,675; of the mean of 2^20 draws 282.
  EXPECT_LT(std::abs(sum / kDraws), 6 * 282);
  EXPECT_NEAR(std::sqrt(squares / kDraws), 288'675, 1'500);
}

}  // namespace
}  // namespace vrank::graph
