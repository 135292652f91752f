// Copies and memsets: one record for the time, contents and bytes at once.
//
// Bytes move when the call is issued, which is the stream's order as well: a program
// may not look at the target before a wait that covers the copy. Only results of
// collectives may not exist yet; they land at such a wait (obligations.h).
//
// Sizes are in bytes.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_COPY_ENGINE_H_
#define VRANK_VIRTUAL_GPU_CORE_COPY_ENGINE_H_

#include <cstdint>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/host_memory.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

struct CopySides {
  protocol::CopyKind kind;
  bool pinned;
};

class CopyEngine {
 public:
  CopyEngine(Channel* channel, Contents& contents, HostMemory& host_memory,
             Obligations& obligations, ActivityNotes& notes)
      : channel_(channel),
        contents_(contents),
        host_memory_(host_memory),
        obligations_(obligations),
        notes_(notes) {}

  // One row where the block has no gaps; what a plain copy asks for anyway.
  static CopyRequest Flattened(CopyRequest request);
  // Between what memory it copies. kInvalidValue where that is not as the caller says.
  Error FindSides(const CopyRequest& request, CopySides* sides);
  static bool HostMustWait(const CopyRequest& request, const CopySides& sides);
  // The record, and the note for a profiler. `flags`: Record::flags.
  void EmitCopy(const Stream& stream, const CopyRequest& request,
                const CopySides& sides, uint16_t flags);
  // Moves contents and existing bytes; results that are not here yet become landings.
  // False where the machine has no memory for the bytes.
  bool Move(const CopyRequest& request, const CopySides& sides,
            std::vector<Landing>* landings);

  // Whether the block lies in memory that can be filled as asked.
  Error CheckFill(const FillRequest& request);
  void EmitFill(const Stream& stream, const FillRequest& request, uint16_t flags);
  // Fills the memory.
  void Fill(const FillRequest& request);

 private:
  bool MoveRow(const CopySides& sides, uint64_t to, uint64_t from, uint64_t bytes,
               std::vector<Landing>* landings);
  bool StoreFromHost(uint64_t to, const void* from, uint64_t bytes);

  Channel* const channel_;
  Contents& contents_;
  HostMemory& host_memory_;
  Obligations& obligations_;
  ActivityNotes& notes_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_COPY_ENGINE_H_
