// Stream-ordered memory: cudaMallocAsync and its pools.
//
// A pool takes chunks from the device and hands out parts of them, lowest fit. A freed
// part may be used again at once: by the stream that freed it as it is, by another one
// after an edge to the freeing stream (CUDA's "internal dependency"), by anybody once
// the host has waited for the free. Chunks that are free as a whole go back to the
// device at the host's next wait, as far as the pool holds more than its release
// threshold (0 unless set), as CUDA documents it.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_POOL_H_
#define VRANK_VIRTUAL_GPU_CORE_POOL_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/guest/freed_ranges.h"
#include "virtual_gpu/core/device_memory.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/range_allocator.h"
#include "virtual_gpu/core/stream_lanes.h"

namespace vrank::gpu {

struct Pool {
  // What a pool takes from the device at a time, where the device has it. An
  // assumption: NVIDIA documents neither the size nor that there is one, and it has not
  // been measured here. It shows in the memory that the device has left
  // (cudaMemGetInfo), in cudaMemPoolAttrReservedMem* and in the reported peak memory,
  // each too high or too low by less than a chunk per pool; the report names it where a
  // pool grew (LossId::kPoolChunks). Times do not depend on it.
  static constexpr uint64_t kChunk = uint64_t{32} << 20;

  Pool(DeviceMemory* memory, StreamLanes* lanes, int device, uint64_t max_bytes)
      : memory(memory), lanes(lanes), device(device), max_bytes(max_bytes) {}

  // Memory for `stream`, which goes on after whoever used it before; nullptr when
  // neither pool nor device has room. REQUIRES: bytes > 0.
  Allocation* Allocate(uint64_t bytes, Stream* stream);
  // `stream`: where the free is ordered; nullptr: the host has waited already.
  void Free(Allocation* allocation, Stream* stream);
  // Gives chunks back until the pool holds at most `keep` bytes or all the rest is
  // used.
  void Trim(uint64_t keep);
  // Gives everything back; nothing of the pool may be used any more.
  void Clear();
  // The program has destroyed it, and its last memory has been given back.
  bool gone() const { return destroyed && reserved == 0; }

  uint64_t* Attribute(PoolAttribute attribute);

  DeviceMemory* const memory;
  StreamLanes* const lanes;
  const int device;
  const uint64_t max_bytes;  // 0: no limit of its own
  bool is_default = false;
  bool destroyed = false;  // lives on while memory of it is in use
  void* handle = nullptr;

  uint64_t follow_events = 1, opportunistic = 1, internal_dependencies = 1;
  uint64_t release_threshold = 0;
  uint64_t reserved = 0, reserved_high = 0;
  uint64_t used = 0, used_high = 0;
  std::map<int, MemoryAccess> access;  // of other devices, where the program set it

 private:
  bool Grow(uint64_t bytes);
  Stream* Owner(const FreedBy& freed) const;
  bool HasForeign(uint64_t begin, uint64_t end, const Stream* stream) const;
  void TakeOver(uint64_t begin, uint64_t end, Stream* stream);

  RangeAllocator free_;
  FreedRanges freed_;                    // parts of free_
  std::map<uint64_t, uint64_t> chunks_;  // begin -> bytes
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_POOL_H_
