// The sweep's code without vectors: one rank at a time.

#include "graph/sweep/kernel_inl.h"

namespace vrank::graph {
namespace {

struct Scalar {
  using V = int64_t;
  static constexpr uint32_t kWidth = 1;
  static constexpr uint32_t kVectors = 4;  // of a run
  static V Load(const int64_t* from) { return *from; }
  static V LoadKeys(const uint64_t* from) { return static_cast<int64_t>(*from); }
  static V LoadCosts(const uint32_t* from) { return *from; }
  static void Store(int64_t* to, V v) { *to = v; }
  static void Stream(int64_t* to, V v) { *to = v; }
  static V Set(int64_t v) { return v; }
  // Wraps around, as vectors do.
  static V Add(V a, V b) {
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
  static V Subtract(V a, V b) { return a - b; }
  static V Xor(V a, V b) { return a ^ b; }
  template <int n>
  static V Right(V a) {
    return static_cast<V>(static_cast<uint64_t>(a) >> n);
  }
  static V Multiply(V a, V b) {
    return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  static bool Greater(V a, V b) { return a > b; }
  static bool Or(bool a, bool b) { return a || b; }
  static bool None(bool a) { return !a; }
  static V Select(bool which, V yes, V no) { return which ? yes : no; }
  static V AddWhere(bool which, V a, V b, V no) { return which ? Add(a, b) : no; }
  static V Rotate16(V a) {
    return static_cast<V>(static_cast<uint64_t>(a) << 16 |
                          static_cast<uint64_t>(a) >> 48);
  }
  // Rotate16, as often as `times` says.
  static V Rotate16(V a, V times) {
    for (times &= 3; times > 0; --times)
      a = Rotate16(a);
    return a;
  }
  struct Rounding {
    Rounding() {}
  };
  using Factor = V;
  static Factor FactorOf(V v) { return v; }
  // a + (low 52 bits of `draw`) * b / 2^52. REQUIRES: b < 2^32.
  static V AddHigh52(V a, V draw, Factor b) {
    const uint64_t bits = static_cast<uint64_t>(draw), width = static_cast<uint64_t>(b);
    const uint64_t high = bits >> 20 & 0xffffffff, low = bits & 0xfffff;
    return Add(a, static_cast<V>((high * width + (low * width >> 20)) >> 32));
  }
};

}  // namespace

SweepKernel ScalarSweepKernel(const SweepKernelKey& key) {
  return SweepKernelFor<Scalar>(key);
}

}  // namespace vrank::graph
