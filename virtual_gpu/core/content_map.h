// Who wrote which bytes of one allocation last, in the order in which work was issued.
//
// Kernels do not run on a virtual GPU, so most of device memory has no bytes. Which
// part has, and where the others come from, decides what a copy to the host delivers
// and what a collective sends.
//
// Two kinds of writes, two structures:
//   - Writes of known extent (copies, memsets, GEMM results, results of collectives)
//   are
//     pieces in an ordered map, each with the sequence number of the write.
//   - A kernel that got a pointer may write from there to the allocation's end. The
//   latest
//     such write hides all earlier ones that began at or after its own start (but for
//     pieces that nobody reaches from outside: Origin::own), so the
//     rest is a staircase: begins rise and so do sequence numbers. It is kept as a
//     stack; a launch pops what it hides and pushes one step, O(1) amortised.
// A read merges the two, byte range by byte range, by sequence number.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_CONTENT_MAP_H_
#define VRANK_VIRTUAL_GPU_CORE_CONTENT_MAP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/guest/protocol.h"

namespace vrank::gpu {

struct PendingValue;  // virtual_gpu/core/pending_value.h

struct Origin {
  enum class Kind : uint8_t {
    kUnwritten,
    kBytes,     // the bytes lie in the virtual device's memory
    kFill,      // a memset: `pattern`
    kComputed,  // `writer` would have computed them; no bytes exist
    kResult,    // bytes `offset`... of this member's result of the operation `key`
    kPending,   // bytes `offset`... of what a kernel computes from such results
  };
  Kind kind = Kind::kUnwritten;
  // kFill: the byte at address a is byte a % 4 of this little-endian number.
  uint32_t pattern = 0;
  // kComputed: what would have computed the bytes. Any other kind: empty, or the bytes
  // are made up: they stand for what `writer` would have computed, or follow from such
  // bytes. Lives as long as the process.
  const char* writer = "";
  // kComputed: what the host reads of each element of so many bytes, the lowest first;
  // 0 bytes: zeros.
  uint64_t value = 0;
  uint8_t element_bytes = 0;
  // A number by itself: no kernel writes it that got a pointer to what lies before it.
  bool own = false;
  protocol::PayloadKey key{};
  uint64_t offset = 0;  // of the piece's first byte
  std::shared_ptr<PendingValue> pending = nullptr;
  // kResult: its arrival (obligations.h); 0: none is kept, since hardly anything of it
  // will be known.
  uint64_t arrival = 0;

  bool exists() const { return kind == Kind::kBytes || kind == Kind::kFill; }
  bool made_up() const { return kind != Kind::kComputed && *writer != '\0'; }

  static Origin Bytes(const char* made_up_by = "") {
    return {.kind = Kind::kBytes, .writer = made_up_by};
  }
  static Origin Fill(uint32_t pattern) {
    return {.kind = Kind::kFill, .pattern = pattern};
  }
  static Origin Computed(const char* writer) {
    return {.kind = Kind::kComputed, .writer = writer};
  }
  // REQUIRES: bytes <= 8.
  static Origin Computed(const char* writer, const unsigned char* element,
                         uint32_t bytes) {
    Origin origin = Computed(writer);
    for (uint32_t i = 0; i < bytes; ++i)
      origin.value |= uint64_t{element[i]} << 8 * i;
    origin.element_bytes = origin.value == 0 ? 0 : static_cast<uint8_t>(bytes);
    return origin;
  }
  static Origin Result(const protocol::PayloadKey& key, uint64_t offset,
                       const char* made_up_by = "", uint64_t arrival = 0) {
    return {.kind = Kind::kResult,
            .writer = made_up_by,
            .key = key,
            .offset = offset,
            .arrival = arrival};
  }
  static Origin Pending(std::shared_ptr<PendingValue> value, uint64_t offset,
                        const char* made_up_by = "") {
    return {.kind = Kind::kPending,
            .writer = made_up_by,
            .offset = offset,
            .pending = std::move(value)};
  }
};

// Bytes [begin, end) of the allocation, all of one origin.
struct ContentRun {
  uint64_t begin = 0;
  uint64_t end = 0;
  Origin origin;
};

// A write that may have hit everything (a launch with unknown arguments).
struct BlindWrite {
  uint64_t sequence = 0;
  const char* writer = "";
};

class ContentMap {
 public:
  // Blind writes up to `born` happened before the allocation was made.
  explicit ContentMap(uint64_t born = 0) : born_(born) {}

  // Sequence numbers rise from write to write; 0 is before all of them.
  // REQUIRES: begin < end, sequence higher than in any earlier call.
  void Write(uint64_t begin, uint64_t end, const Origin& origin, uint64_t sequence);
  // A kernel may have written [begin, end of the allocation).
  void WriteFrom(uint64_t begin, const char* writer, uint64_t sequence);

  // ... [begin, end).
  void WriteWithin(uint64_t begin, uint64_t end, const char* writer, uint64_t sequence);

  // What the latest write of known extent left in all of [begin, end), whatever kernels
  // may have written since; nullptr where that is no single write.
  const Origin* LatestPiece(uint64_t begin, uint64_t end) const;

  // Appends the runs of [begin, end), in order and without gaps. `blind` counts like a
  // WriteFrom(0).
  void Read(uint64_t begin, uint64_t end, const BlindWrite& blind,
            std::vector<ContentRun>* runs) const;

 private:
  struct Piece {
    uint64_t end;
    uint64_t sequence;
    Origin origin;
  };
  struct Step {
    uint64_t begin;
    uint64_t sequence;
    const char* writer;
  };

  void Carve(uint64_t begin, uint64_t end);
  void Disown(uint64_t at);

  uint64_t born_;
  std::map<uint64_t, Piece> pieces_;  // by begin; disjoint
  std::vector<Step> steps_;           // begins rise; each counts up to the next
  bool any_own_ = false;              // pieces with Origin::own, at any time
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_CONTENT_MAP_H_
