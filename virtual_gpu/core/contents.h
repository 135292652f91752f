// Contents of all devices' memory: who wrote what, and the bytes that exist.
//
// One sequence of writes for the whole process, in the order in which work was issued;
// see content_map.h for what is kept per allocation.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_CONTENTS_H_
#define VRANK_VIRTUAL_GPU_CORE_CONTENTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/device_memory.h"
#include "virtual_gpu/core/obligations.h"

namespace vrank::gpu {

// Chooses bytes for what `writer` (a kernel's mangled name) would have computed. False:
// no policy for it; the bytes are zero.
using ValuePolicy =
    std::function<bool(const char* writer, unsigned char* to, uint64_t bytes)>;

// Bytes of a fill (Origin::pattern) that lies at `address`.
void FillBytes(uint32_t pattern, uint64_t address, unsigned char* to, uint64_t bytes);
// Copies a run of a range that begins at `from`, if its bytes exist; else returns
// false.
bool CopyKnown(const ContentRun& run, uint64_t from, unsigned char* to);

class Contents {
 public:
  explicit Contents(Channel* channel) : channel_(channel) {}

  void AddDevice(std::unique_ptr<DeviceMemory> memory);
  int devices() const { return static_cast<int>(memories_.size()); }
  DeviceMemory& memory(int device) { return *memories_[static_cast<size_t>(device)]; }

  // -1 where the address is no device's.
  int DeviceOf(uint64_t address) const;
  // The allocation that the address lies in, or nullptr.
  Allocation* Find(uint64_t address);
  // Where the memory ends that the address lies in; 0: it lies in none.
  uint64_t EndOf(uint64_t address);
  // Does [address, address + bytes) lie in one allocation?
  bool IsValid(uint64_t address, uint64_t bytes);
  // ... and does every byte exist, or will it once a collective has ended?
  bool IsKnown(uint64_t address, uint64_t bytes);

  // A new allocation starts unwritten and in no blocks, whatever was at its addresses
  // before.
  void Begin(Allocation* allocation);
  // A part of an allocation that the program's own allocator has given away (`bytes` >
  // 0), or has back: what gets an address in it is about the block alone. An address in
  // none of the blocks of such an allocation is an old one, which stands in an unused
  // part of a kernel's arguments.
  void SetBlock(uint64_t address, int64_t bytes);
  // Where that ends which is reached from an address: its block, or an allocation that
  // has no blocks. 0: nothing.
  uint64_t ReachEnd(uint64_t address);

  // --- Writes. REQUIRES: the range is valid. ---------------------------------------
  void Write(uint64_t to, uint64_t bytes, const Origin& origin);
  // False where the machine has no memory for the bytes.
  bool StoreBytes(uint64_t to, const void* from, uint64_t bytes);
  bool CopyWithin(uint64_t to, uint64_t from, uint64_t bytes);
  // A kernel got this address to write to. Addresses that are no device memory are
  // ignored. WriteFrom: it may reach the end of the allocation, since a block may have
  // another extent by now (a launch of a graph).
  void WriteInReach(uint64_t address, const char* writer);
  void WriteFrom(uint64_t address, const char* writer);
  // From now on both ranges show the same memory, which contains what is at `first`;
  // until Part of either. False where the machine has no memory for its bytes.
  bool Join(uint64_t first, uint64_t second, uint64_t bytes);
  void Part(uint64_t address);
  // A kernel may have written anything.
  void WriteAnywhere(const char* writer) { blind_ = {++sequence_, writer}; }
  // Values were stored that nothing has computed: choices that stand for those of a
  // kernel.
  void CountMadeUp(uint64_t values, const std::string& kernel) {
    channel_->Count(LossId::kMadeUpChoices, values, kernel);
  }

  // --- Reads -------------------------------------------------------------------------
  // Runs of [from, from + bytes), as offsets from `from`. REQUIRES: the range is valid.
  std::vector<ContentRun> Runs(uint64_t from, uint64_t bytes);
  // Copies out what exists, zero or the policy's bytes for what a kernel computed or
  // nothing wrote, which is counted; what is the result of a collective, or computed
  // from one, is left alone and appended to `landings`.
  void Deliver(uint64_t from, uint64_t bytes, unsigned char* to,
               std::vector<Landing>* landings);

  // Why what `writer` would have computed last is not there: what a loss says behind
  // its name. `input`: an address that it read and that is not known, 0 where there is
  // none; the reason then names the first kernel on the way there that was not
  // computed.
  void SetReason(const char* writer, std::string reason, uint64_t input = 0);
  // Copies the range out where it is valid and all of it exists. Otherwise returns
  // false, and what is at `to` is unspecified.
  bool ReadKnown(uint64_t from, uint64_t bytes, unsigned char* to);
  // Whether one byte exists.
  bool Exists(uint64_t address);

  void SetValuePolicy(ValuePolicy policy) { policy_ = std::move(policy); }
  // Writes and counts what stands for computed bytes.
  void WriteComputed(const Origin& origin, unsigned char* to, uint64_t bytes);
  // Where nobody knows a byte of the range: whether the host would read one and the
  // same element everywhere in it, and which. REQUIRES: element_bytes <= 8.
  bool ReadsOneElement(uint64_t address, uint64_t bytes, uint32_t element_bytes,
                       unsigned char* element);
  // The number that a write of known extent left there last: what it would be to the
  // host. `is_known`: not computed. False: nobody wrote it so, or it is yet to come.
  bool ReadLatest(uint64_t address, uint32_t bytes, unsigned char* number,
                  bool* is_known);

 private:
  // A range that shows the same memory as the one at `twin`.
  struct Alias {
    uint64_t begin, twin, bytes;
  };
  std::map<uint64_t, uint64_t>::const_iterator BlockOf(uint64_t address) const;
  // REQUIRES: the address is valid. Until the next call.
  const Origin& OriginOf(uint64_t address);
  void WriteHere(uint64_t to, uint64_t bytes, const Origin& origin);
  bool CopyHere(uint64_t to, uint64_t from, uint64_t bytes);
  // Lets the twins of a range follow what was written there.
  bool Mirror(uint64_t address, uint64_t bytes);

  // What stands for computed bytes, from the piece's `offset` on.
  void ShowComputed(const Origin& origin, unsigned char* to, uint64_t bytes) const;

  Channel* const channel_;
  std::vector<std::unique_ptr<DeviceMemory>> memories_;
  std::vector<Alias> aliases_;           // both of a pair; few, mostly none
  std::map<uint64_t, uint64_t> blocks_;  // their ends by their begins
  uint64_t sequence_ = 0;
  BlindWrite blind_;
  std::vector<ContentRun> one_run_;  // of OriginOf
  ValuePolicy policy_;
  std::unordered_map<const char*, std::string> reasons_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_CONTENTS_H_
