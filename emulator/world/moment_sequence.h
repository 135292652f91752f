// Moments of a rank in the order of its ops, in a few bytes each.
//
// What differs from the moment before is stored, as a varint: which of the members, and
// by how much. A moment costs 3 bytes and those of the members that have changed.
//
// Thread rule: plain value; one thread.

#ifndef VRANK_EMULATOR_WORLD_MOMENT_SEQUENCE_H_
#define VRANK_EMULATOR_WORLD_MOMENT_SEQUENCE_H_

#include <cstddef>
#include <cstdint>

#include "base/varint_sequence.h"
#include "graph/replay/stamp.h"

namespace vrank::emulator {

struct Moment {
  uint64_t op = 0;
  graph::Stamp host;  // it has passed the op
  // The end of all device work that was issued until then, that of the op included.
  graph::Stamp completed;
};

class MomentSequence {
 public:
  // REQUIRES: the op is later than that of the moment before.
  void Append(const Moment& moment);
  void Clear();
  size_t bytes() const { return numbers_.bytes(); }

  class Reader {
   public:
    // `sequence` outlives the reader and does not change meanwhile.
    explicit Reader(const MomentSequence& sequence) : numbers_(sequence.numbers_) {}
    // The moment of that op; nullptr where none was stored. REQUIRES: no op earlier
    // than in the call before.
    const Moment* Find(uint64_t op);

   private:
    VarintSequence::Reader numbers_;
    Moment moment_;
    bool has_moment_ = false;
  };

 private:
  VarintSequence numbers_;
  Moment last_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_MOMENT_SEQUENCE_H_
