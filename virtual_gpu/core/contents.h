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
#include "virtual_gpu/core/number_read.h"
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
  // Where it begins; the address itself where it reaches nothing.
  uint64_t ReachBegin(uint64_t address);

  // --- Writes. REQUIRES: the range is valid. ---------------------------------------
  void Write(uint64_t to, uint64_t bytes, const Origin& origin);
  // False where the machine has no memory for the bytes.
  bool StoreBytes(uint64_t to, const void* from, uint64_t bytes,
                  const char* made_up_by = "");
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
  // All known bytes that are reached from the address depend on made-up ones: a kernel
  // that had read others might have written others. Addresses that are no device memory
  // are ignored.
  void MakeUpInReach(uint64_t address, const char* writer) {
    if (const uint64_t end = ReachEnd(address); end != 0)
      MakeUp(address, end - address, writer);
  }
  // REQUIRES: the range is valid.
  void MakeUp(uint64_t address, uint64_t bytes, const char* writer);
  // Values were stored that nothing has computed: choices that stand for those of a
  // kernel.
  void CountMadeUp(uint64_t values, const std::string& kernel) {
    channel_->Count(LossId::kMadeUpChoices, values, kernel);
  }

  // Work was issued. What the host has read by then may have decided it.
  void NoteWork() {
    if (!numbers_read_.empty()) [[unlikely]]
      CountDecisions();
  }

  // --- Reads -------------------------------------------------------------------------
  // Runs of [from, from + bytes), as offsets from `from`. REQUIRES: the range is valid.
  std::vector<ContentRun> Runs(uint64_t from, uint64_t bytes);
  // To the host: copies out what exists, zero or the policy's bytes for what a kernel
  // computed or nothing wrote. These are counted, and bytes that were made up; what is
  // the result of a collective, or computed from one, is left alone and appended to
  // `landings`.
  void Deliver(uint64_t from, uint64_t bytes, unsigned char* to,
               std::vector<Landing>* landings);
  // The origin of booleans (one byte each) that a kernel computes from unknown numbers:
  // `computed`, marked as made up, so that kernels that read them are computed
  // consistently. `isnan(x)` is false, and `~isnan(x)` is true.
  Origin AssumeCondition(const Origin& computed) const;
  // To kernels and libraries: the same of a range that is known; nothing is counted.
  // Returns the writer of the first made-up byte, empty where there is none.
  const char* Gather(uint64_t from, uint64_t bytes, unsigned char* to,
                     std::vector<Landing>* landings);

  // What stands as the writer of bytes that a launch of the kernel `name` would have
  // computed, or made up, and that are not known for this reason: a loss says it behind
  // the name. `input`: an address that it read and that is not known, 0 where there is
  // none; the reason then names the first kernel on the way there that was not
  // computed. `name` and the result live as long as the process.
  const char* NameWriter(const char* name, std::string reason, uint64_t input = 0);
  // ... of bytes that follow from ones that `before` has made up.
  const char* NameMadeUp(const char* name, const char* before);
  // Copies the range out where it is valid and all of it exists. Otherwise returns
  // false, and what is at `to` is unspecified. `made_up_by` becomes the writer of the
  // first made-up byte; it stays where there is none.
  bool ReadKnown(uint64_t from, uint64_t bytes, unsigned char* to,
                 const char** made_up_by = nullptr);
  // Whether one byte exists.
  bool Exists(uint64_t address) {
    return IsValid(address, 1) && OriginOf(address).exists();
  }
  // Until the next call. REQUIRES: the address is valid.
  const Origin& OriginOf(uint64_t address);

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
  void WriteHere(uint64_t to, uint64_t bytes, const Origin& origin);
  bool CopyHere(uint64_t to, uint64_t from, uint64_t bytes);
  // Lets the twins of a range follow what was written there.
  bool Mirror(uint64_t address, uint64_t bytes);

  // Puts the kernel that `before` has as its first cause, or is, behind the reason.
  std::string After(std::string reason, const char* before) const;
  // The host has read bytes that are not known.
  void CountRead(const char* writer, uint64_t bytes);
  void CountDecisions();
  // The writer's name, and its reason.
  std::string Describe(const char* writer) const;
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
  // Names of writers by the kernel's name and the reason, and these by the former.
  std::map<std::pair<const char*, std::string>, std::unique_ptr<const std::string>>
      writers_;
  std::unordered_map<const char*, std::string> reasons_;
  // Numbers that are not known and that the host has read since work was issued last.
  std::vector<std::pair<NumberRead, const char*>> numbers_read_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_CONTENTS_H_
