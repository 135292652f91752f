// Global memory as one launch sees it: bytes of the device where they were not written,
// and what the launch has written, which reaches the device only if the launch ends.
//
// Each byte has a known flag (0xff or 0). Device memory is asked for one page at a
// time.
//
// Thread rule: an object belongs to one thread.

#ifndef VRANK_VIRTUAL_GPU_CODE_OVERLAY_MEMORY_H_
#define VRANK_VIRTUAL_GPU_CODE_OVERLAY_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace vrank::gpu {

class DeviceBytes {
 public:
  virtual ~DeviceBytes() = default;
  // Fills in [address, address + bytes), which starts as unknown and inaccessible:
  // bytes, and 0xff where a flag holds.
  struct Flags {
    unsigned char* known;
    unsigned char* valid;    // the address is one of memory
    unsigned char* made_up;  // bytes are no kernel's results, but stand for some
    unsigned char* awaited;  // unknown bytes may be known later
  };
  virtual void Load(uint64_t address, uint64_t bytes, unsigned char* to,
                    const Flags& flags) = 0;
};

class OverlayMemory {
 public:
  explicit OverlayMemory(DeviceBytes* device) : device_(device) {}

  // False where some byte is not one of memory.
  bool Read(uint64_t address, uint32_t bytes, unsigned char* to, unsigned char* known);
  bool Write(uint64_t address, uint32_t bytes, const unsigned char* from,
             const unsigned char* known);

  // Whether a byte that the device does not know, and will not, was read before the
  // launch wrote it, and where the first one is.
  // Whether one that it knows was.
  bool read_known() const { return read_known_ != 0; }
  bool read_unknown() const { return unknown_address_ != 0; }
  uint64_t unknown_address() const { return unknown_address_; }
  // Likewise of a byte that is made up; 0: none was read.
  uint64_t made_up_address() const { return made_up_address_; }
  // ... and of one that is awaited.
  uint64_t awaited_address() const { return awaited_address_; }

  // Bytes that the launch wrote, in order of their addresses, all known or all unknown.
  struct Run {
    uint64_t address;
    bool known;
    std::vector<unsigned char> bytes;
  };
  std::vector<Run> Written() const;

 private:
  static constexpr uint64_t kPageBytes = 512;
  struct Page {
    std::array<unsigned char, kPageBytes> bytes{}, known{}, valid{}, made_up{},
        awaited{}, written{};
  };
  Page& At(uint64_t page);

  DeviceBytes* const device_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_number_ = ~uint64_t{0};
  Page* last_ = nullptr;
  unsigned char read_known_ = 0;
  uint64_t unknown_address_ = 0, made_up_address_ = 0, awaited_address_ = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_OVERLAY_MEMORY_H_
