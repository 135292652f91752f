// What the work of libnccl reads from memory and writes to it.
//
// Owns the stream on which such work is being issued. Pointers may be device memory or
// host memory that the device can reach; a range of device memory may extend over
// several allocations, and where it gets to addresses without memory, the GPU is lost
// (Devices::Fault). Sizes are in bytes.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_LIBRARY_MEMORY_H_
#define VRANK_VIRTUAL_GPU_CORE_LIBRARY_MEMORY_H_

#include <cstdint>
#include <vector>

#include "base/guest/virtual_gpu.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/copy_engine.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/obligations.h"
#include "virtual_gpu/core/page_parts.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

class LibraryMemory {
 public:
  LibraryMemory(Devices& devices, Contents& contents, Obligations& obligations,
                CopyEngine& copies)
      : devices_(devices),
        contents_(contents),
        obligations_(obligations),
        copies_(copies) {}

  // The stream of the work that follows; nullptr: none. What the work leaves to the
  // host comes before a wait for that stream.
  void SetStream(Stream* stream) {
    stream_ = stream;
    if (stream == nullptr)
      BeginContribution();
  }
  Stream* stream() const { return stream_; }

  // As VirtualGpu's.
  std::vector<ContentPiece> Inspect(const void* address, uint64_t bytes);
  void Read(const void* address, uint64_t bytes, void* out);
  void SetResult(void* address, uint64_t bytes, protocol::PayloadKey key,
                 uint64_t offset);
  void Copy(void* to, const void* from, uint64_t bytes);
  void BeforeNextFetch(std::function<void()> call) {
    obligations_.BeforeNextFetch(std::move(call));
  }

 private:
  // From now on the range is computed: a kernel of the library writes it.
  void SetComputed(void* address, uint64_t bytes);
  std::vector<PagePart> PartsOrFault(uint64_t address, uint64_t bytes);
  void AddLanding(const Landing& landing);
  // What was inspected so far belongs to work that is done.
  void BeginContribution() {
    made_up_by_ = "";
    contributes_ = Contributes::kNothing;
    has_result_ = false;
  }
  // Of a result of so many bytes that may be known in part; 0: it is not worth it.
  uint64_t AddArrival(uint64_t bytes);

  Devices& devices_;
  Contents& contents_;
  Obligations& obligations_;
  CopyEngine& copies_;
  Stream* stream_ = nullptr;
  // The writer of made-up bytes among what the work in progress contributes: its
  // results, to which other ranks contribute what they made up alike, are made up.
  const char* made_up_by_ = "";
  // What it contributes as far as it was inspected: other ranks know as much of theirs.
  enum class Contributes : uint8_t { kNothing, kUnknown, kSomeKnown };
  Contributes contributes_ = Contributes::kNothing;
  bool has_result_ = false;  // it is done but for more results
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_LIBRARY_MEMORY_H_
