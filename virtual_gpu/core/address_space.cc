// mmap without access, mprotect where bytes are written.

#include "virtual_gpu/core/address_space.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/guest/raw_log.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kPage = 4096;

void* Pointer(uint64_t address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

AddressSpace::~AddressSpace() {
  if (reserved_)
    munmap(Pointer(base_), span_);
}

bool AddressSpace::Reserve() {
  if (reserved_ || refused_)
    return reserved_;
  void* got =
      mmap(Pointer(base_), span_, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != Pointer(base_)) {  // a kernel before 4.17 may have put it elsewhere
    if (got != MAP_FAILED)
      munmap(got, span_);
    refused_ = true;
    RawLog("virtual_gpu",
           "no room at %#llx for %llu GiB of addresses (%s); run without other memory "
           "there and without a limit on virtual memory (ulimit -v)",
           static_cast<unsigned long long>(base_),
           static_cast<unsigned long long>(span_ >> 30), strerror(errno));
    return false;
  }
  // A touched page costs a page, not a huge one.
  madvise(Pointer(base_), span_, MADV_NOHUGEPAGE);
  open_.resize(span_ / kGranule);
  reserved_ = true;
  return true;
}

bool AddressSpace::Open(uint64_t address, uint64_t bytes) {
  if (bytes == 0)
    return true;
  if (!Reserve())
    return false;
  const uint64_t last = (address + bytes - 1 - base_) / kGranule;
  for (uint64_t i = (address - base_) / kGranule; i <= last; ++i) {
    if (open_[i])
      continue;
    if (mprotect(Pointer(base_ + i * kGranule), kGranule, PROT_READ | PROT_WRITE) !=
        0) {
      RawLog("virtual_gpu", "no memory for bytes at %#llx: %s; give the machine more",
             static_cast<unsigned long long>(address), strerror(errno));
      return false;
    }
    open_[i] = true;
  }
  return true;
}

void AddressSpace::Discard(uint64_t address, uint64_t bytes) {
  if (!reserved_)
    return;
  const uint64_t begin = (address + kPage - 1) / kPage * kPage;
  const uint64_t end = (address + bytes) / kPage * kPage;
  for (uint64_t at = begin; at < end;) {
    const uint64_t granule = (at - base_) / kGranule;
    uint64_t stop = base_ + (granule + 1) * kGranule;
    stop = stop < end ? stop : end;
    if (open_[granule])
      madvise(Pointer(at), stop - at, MADV_DONTNEED);
    at = stop;
  }
}

}  // namespace vrank::gpu
