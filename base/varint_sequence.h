// Unsigned numbers, small ones in few bytes, to be read from the first on.
//
// Seven bits a byte, the lowest first; the eighth bit says that more follow. Takes one
// byte for a number below 128 and ten at most, and never moves what it holds.
//
// Thread rule: plain value; one thread.

#ifndef VRANK_BASE_VARINT_SEQUENCE_H_
#define VRANK_BASE_VARINT_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

namespace vrank {

class VarintSequence {
 public:
  void Append(uint64_t number) {
    for (; number >= 0x80; number >>= 7)
      bytes_.push_back(static_cast<uint8_t>(number | 0x80));
    bytes_.push_back(static_cast<uint8_t>(number));
  }
  void Clear() { bytes_ = {}; }
  size_t bytes() const { return bytes_.size(); }

  class Reader {
   public:
    // `sequence` outlives the reader and does not change meanwhile.
    explicit Reader(const VarintSequence& sequence)
        : at_(sequence.bytes_.begin()), end_(sequence.bytes_.end()) {}
    bool AtEnd() const { return at_ == end_; }
    // REQUIRES: !AtEnd().
    uint64_t Next() {
      uint64_t number = 0;
      for (int shift = 0;; shift += 7) {
        const uint64_t byte = *at_++;
        number |= (byte & 0x7f) << shift;
        if (byte < 0x80)
          return number;
      }
    }

   private:
    std::deque<uint8_t>::const_iterator at_, end_;
  };

 private:
  std::deque<uint8_t> bytes_;
};

// A difference as a number that is small where the difference is: 0, -1, 1, -2...
inline uint64_t ZigZag(uint64_t now, uint64_t before) {
  const uint64_t difference = now - before;
  return difference << 1 ^ (difference >> 63 != 0 ? ~uint64_t{0} : 0);
}
inline uint64_t FromZigZag(uint64_t number, uint64_t before) {
  return before + (number >> 1 ^ ((number & 1) != 0 ? ~uint64_t{0} : 0));
}

}  // namespace vrank

#endif  // VRANK_BASE_VARINT_SEQUENCE_H_
