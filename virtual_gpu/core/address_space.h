// A stretch of the process's address space at a fixed place, without memory behind it.
//
// Device addresses and page-locked host memory come from such stretches, so that they
// are the same in every run. The whole stretch is reserved without access when it is
// first used; a part gets memory when bytes are really written there, so an 80 GB
// device costs nothing until it is touched, and a program that follows a device pointer
// on the host faults as it would on a real machine (unless real bytes lie nearby).
//
//   device d            kDeviceBase + d * kDeviceSpan
//   page-locked memory  kHostBase
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_ADDRESS_SPACE_H_
#define VRANK_VIRTUAL_GPU_CORE_ADDRESS_SPACE_H_

#include <cstdint>
#include <vector>

namespace vrank::gpu {

// Far from where Linux puts programs, heaps, libraries and stacks (below 2^36 and from
// 0x55.. and 0x7f.. on), and inside 47 bits.
inline constexpr uint64_t kDeviceBase = 0x2000'0000'0000;
// Far more than any device has memory: programs reserve addresses by the device's size,
// many times over (PyTorch's expandable segments).
inline constexpr uint64_t kDeviceSpan = uint64_t{4} << 40;
inline constexpr uint64_t kHostBase = 0x1f00'0000'0000;
inline constexpr uint64_t kHostSpan = uint64_t{1} << 40;

class AddressSpace {
 public:
  // Access is given and taken back in units of this.
  static constexpr uint64_t kGranule = uint64_t{2} << 20;

  AddressSpace(uint64_t base, uint64_t span) : base_(base), span_(span) {}
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  uint64_t base() const { return base_; }
  uint64_t span() const { return span_; }
  bool Contains(uint64_t address) const { return address - base_ < span_; }

  // Makes the range readable and writable, zero where nothing was written. False where
  // the system refuses (said once on stderr).
  bool Open(uint64_t address, uint64_t bytes);
  // Gives the memory of the whole pages in the range back; they read as zero if opened
  // again. Access stays.
  void Discard(uint64_t address, uint64_t bytes);

 private:
  bool Reserve();

  uint64_t base_, span_;
  bool reserved_ = false;
  bool refused_ = false;
  std::vector<bool> open_;  // per granule
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_ADDRESS_SPACE_H_
