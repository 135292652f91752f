// A chunk of a .vtrace file while it is being filled.
//
// Thread rule: one owner at a time.

#ifndef VRANK_TRACER_RECORD_CHUNK_H_
#define VRANK_TRACER_RECORD_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/guest/trace_format.h"

namespace vrank::tracer {

// Some 3,000 records: 1/4 s of a program that makes 10,000 calls a second.
inline constexpr size_t kChunkBytes = 256 << 10;

struct Chunk {
  Chunk* next = nullptr;  // in the writer's lists
  trace::Source source = trace::Source::kProgram;
  uint32_t records = 0;
  uint32_t used = 0;  // of `bytes`
  alignas(8) unsigned char bytes[kChunkBytes];

  bool Fits(size_t size) const { return size <= kChunkBytes - used; }

  // Room for one record of `size` bytes, all zero.
  // REQUIRES: Fits(size), size is a multiple of 8.
  void* Take(size_t size) {
    void* at = bytes + used;
    std::memset(at, 0, size);
    used += static_cast<uint32_t>(size);
    ++records;
    return at;
  }
};

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_RECORD_CHUNK_H_
