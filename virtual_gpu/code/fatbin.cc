// Walks the entries of a fat binary.

#include "virtual_gpu/code/fatbin.h"

#include <zstd.h>

#include <cstring>

#include "virtual_gpu/code/cubin.h"

namespace vrank::gpu {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kFatbinMagic = 0xba55ed50;
constexpr uint32_t kElfMagic = 0x464c457f;
constexpr size_t kFatbinHeader = 16;
constexpr size_t kEntryHeader = 64;  // what is read of it
constexpr uint16_t kPtx = 1;
constexpr uint16_t kElf = 2;
constexpr uint64_t kLz4 = 0x2000;
constexpr uint64_t kZstd = 0x8000;
// More than any cubin has; a damaged header must not take the machine's memory.
constexpr uint64_t kMostUnpacked = uint64_t{1} << 30;

template <typename T>
T At(const unsigned char* from, size_t offset) {
  T value;
  std::memcpy(&value, from + offset, sizeof value);
  return value;
}

// Up to where a cubin reaches that comes without a size: its section headers end it.
size_t ElfBytes(const unsigned char* elf) {
  return At<uint64_t>(elf, 40) + size_t{At<uint16_t>(elf, 58)} * At<uint16_t>(elf, 60);
}

struct Entry {
  uint64_t flags = 0;
  const unsigned char* payload = nullptr;
  uint64_t bytes = 0;     // with padding
  uint64_t packed = 0;    // without, where it is compressed
  uint64_t unpacked = 0;  // where it is compressed
  uint32_t architecture = 0;
};

const char* Unpack(const Entry& entry, Elf* elf) {
  if ((entry.flags & kLz4) != 0)
    return "its machine code is compressed with lz4 (compile with another "
           "-compress-mode)";
  if ((entry.flags & kZstd) == 0) {
    elf->data = entry.payload;
    elf->bytes = entry.bytes;
    return nullptr;
  }
  if (entry.packed > entry.bytes || entry.unpacked > kMostUnpacked)
    return "its fat binary is damaged";
  elf->unpacked.resize(entry.unpacked);
  const size_t got = ZSTD_decompress(elf->unpacked.data(), elf->unpacked.size(),
                                     entry.payload, entry.packed);
  if (ZSTD_isError(got) != 0 || got != entry.unpacked)
    return "its machine code can't be unpacked";
  elf->data = elf->unpacked.data();
  elf->bytes = elf->unpacked.size();
  return nullptr;
}

}  // namespace

const char* FindElf(const void* image, uint32_t architecture, Elf* elf) {
  const auto* at = static_cast<const unsigned char*>(image);
  *elf = {};
  if (at != nullptr && At<uint32_t>(at, 0) == kWrapperMagic)
    at = At<const unsigned char*>(at, 8);
  if (at == nullptr)
    return "it has no device image";
  if (At<uint32_t>(at, 0) == kElfMagic) {
    elf->data = at;
    elf->bytes = ElfBytes(at);
    const uint32_t code = ArchitectureOf(elf->data, elf->bytes);
    elf->runnable = code == 0 || Runs(architecture, code);
    return nullptr;
  }
  if (At<uint32_t>(at, 0) != kFatbinMagic || At<uint16_t>(at, 6) != kFatbinHeader)
    return "its device image is of an unknown form";
  const uint64_t total = At<uint64_t>(at, 8);
  at += kFatbinHeader;
  Entry chosen;
  bool has_ptx = false;
  bool compiles = false;  // PTX for this GPU or an older one
  for (uint64_t offset = 0; offset + kEntryHeader <= total;) {
    const unsigned char* header = at + offset;
    const uint64_t header_bytes = At<uint32_t>(header, 4);
    const uint64_t bytes = At<uint64_t>(header, 8);
    if (header_bytes < kEntryHeader || header_bytes > total - offset ||
        bytes > total - offset - header_bytes)
      return "its fat binary is damaged";
    const auto kind = At<uint16_t>(header, 0);
    const auto code = At<uint32_t>(header, 28);
    has_ptx = has_ptx || kind == kPtx;
    compiles = compiles || (kind == kPtx && code <= architecture);
    const bool better =
        chosen.payload == nullptr ||
        (Runs(architecture, code) &&
         (!Runs(architecture, chosen.architecture) || code > chosen.architecture));
    if (kind == kElf && better)
      chosen = {At<uint64_t>(header, 40), header + header_bytes,    bytes,
                At<uint32_t>(header, 16), At<uint64_t>(header, 56), code};
    offset += header_bytes + bytes;
  }
  elf->runnable = compiles || (chosen.payload != nullptr &&
                               Runs(architecture, chosen.architecture));
  if (chosen.payload == nullptr)
    return has_ptx ? "its device image holds PTX only (compile for a real "
                     "architecture, too)"
                   : "its device image holds no machine code";
  return Unpack(chosen, elf);
}

}  // namespace vrank::gpu
