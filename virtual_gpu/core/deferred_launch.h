// Launches over what communication has not brought yet.
//
// The interpreter (virtual_gpu/code) runs such a launch with unknown bytes first. Where
// neither its way nor its addresses depend on them, it is known what it reads and
// writes: it runs again, with what there is by then, once somebody looks at what it has
// written (pending_value.h). Each byte is known or not, as the bytes are that it
// follows from: a gathered tensor of statistics that nobody has computed, with the
// counts beside them.
//
// Not thread-safe: the GPU's lock guards the contents; values are computed without it.

#ifndef VRANK_VIRTUAL_GPU_CORE_DEFERRED_LAUNCH_H_
#define VRANK_VIRTUAL_GPU_CORE_DEFERRED_LAUNCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/code/interpreter.h"
#include "virtual_gpu/code/overlay_memory.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/pending_value.h"

namespace vrank::gpu {

struct KernelComputation;

// Whether bytes that are not here yet may be known later: of results whose arrival is
// kept, and of what follows from such results.
bool IsAwaited(const Origin& origin);

// Device memory for a launch. Awaited bytes that have arrived are fetched, and become
// contents.
class LaunchMemory final : public DeviceBytes {
 public:
  LaunchMemory(Contents* contents, Obligations* obligations)
      : contents_(contents), obligations_(obligations) {}

  void Load(uint64_t address, uint64_t bytes, unsigned char* to,
            const Flags& flags) override;

  struct Part {
    uint64_t address, bytes;
  };
  // What was loaded.
  const std::vector<Part>& parts() const { return parts_; }

 private:
  void Fetch(uint64_t address, uint64_t bytes, const Origin& origin, unsigned char* to,
             unsigned char* known);

  Contents* const contents_;
  Obligations* const obligations_;
  std::vector<Part> parts_;
};

// What the launch has run with, and came to.
struct DeferredLaunch {
  KernelComputation& how;
  const InterpretedLaunch& launch;
  const LaunchMemory& memory;
  uint64_t thread_instructions;
  const std::vector<OverlayMemory::Run>& written;
};
// The value of the unknown bytes among the written ones, in their order. nullptr where
// it would take too much to keep.
std::shared_ptr<PendingValue> Defer(const DeferredLaunch& deferred, Channel* channel,
                                    Contents& contents);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_DEFERRED_LAUNCH_H_
