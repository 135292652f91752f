// Device memory that comes with a CUDA context beside the driver's own part, which is
// GpuModel.context_bytes: the code of the process's kernels, and its streams.
//
// Measured on an H100 (driver 580.159, CUDA 13.0, modules loaded lazily, PyTorch 2.11);
// docs/models.md, "GPU properties". A process without PyTorch was not measured.
//
// Thread rule: any thread; not from a signal handler.

#ifndef VRANK_BASE_GUEST_CONTEXT_MEMORY_H_
#define VRANK_BASE_GUEST_CONTEXT_MEMORY_H_

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace vrank {

// A stream, as long as it lives. PyTorch takes 128 of them at once, and 70 MiB.
inline constexpr uint64_t kStreamBytes = uint64_t{70} << 20 >> 7;

// What the H200 had in use for further code differs by multiples of this.
inline constexpr uint64_t kCodeBlockBytes = uint64_t{2} << 20;

// With the first kernel of PyTorch, whose libraries register 449 fat binaries, 92 MiB
// are taken; kernels that it loads later take hardly more.
inline constexpr uint64_t CodeBytes(uint64_t fat_binaries) {
  constexpr uint64_t kMeasured = uint64_t{92} << 20, kOf = 449;
  return (fat_binaries * kMeasured / kOf + kCodeBlockBytes / 2) / kCodeBlockBytes *
         kCodeBlockBytes;
}

// How many fat binaries an object file registers; 0 where it cannot be read.
inline uint64_t FatBinariesOf(const char* path) {
  // __fatBinC_Wrapper_t of CUDA's fatbinary_section.h, one per registration.
  constexpr uint64_t kWrapperBytes = 24;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  auto read = [file](void* out, size_t bytes, uint64_t offset) {
    return pread(file, out, bytes, static_cast<off_t>(offset)) ==
           static_cast<ssize_t>(bytes);
  };
  uint64_t wrappers = 0;
  ElfW(Ehdr) header;
  if (read(&header, sizeof header, 0) && header.e_shentsize == sizeof(ElfW(Shdr)) &&
      header.e_shstrndx < header.e_shnum) {
    std::vector<ElfW(Shdr)> sections(header.e_shnum);
    std::string names;
    if (read(sections.data(), sections.size() * sizeof sections[0], header.e_shoff)) {
      const ElfW(Shdr)& strings = sections[header.e_shstrndx];
      names.resize(strings.sh_size < 1 << 20 ? strings.sh_size : 0);
      if (!read(names.data(), names.size(), strings.sh_offset))
        names.clear();
    }
    for (const ElfW(Shdr) & section : sections)
      if (section.sh_name < names.size() &&
          std::strcmp(names.c_str() + section.sh_name, ".nvFatBinSegment") == 0)
        wrappers += section.sh_size / kWrapperBytes;
  }
  close(file);
  return wrappers;
}

// Whether the object is linked to the shared CUDA runtime, with which it registers its
// kernels. NVIDIA's libraries have one inside, and load what they need.
inline bool NeedsCudaRuntime(const dl_phdr_info& object) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < object.dlpi_phnum; ++i)
    if (object.dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr +
                                                   object.dlpi_phdr[i].p_vaddr);
  if (dynamic == nullptr)
    return false;
  const char* names = nullptr;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_STRTAB) {
      // The loader has relocated it, except in the kernel's own object.
      if (entry->d_un.d_ptr < object.dlpi_addr)
        return false;
      names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    }
  for (const ElfW(Dyn)* entry = dynamic; names != nullptr && entry->d_tag != DT_NULL;
       ++entry)
    if (entry->d_tag == DT_NEEDED &&
        std::string_view(names + entry->d_un.d_val).starts_with("libcudart.so"))
      return true;
  return false;
}

// Of the objects that the process has loaded.
inline uint64_t LoadedCodeBytes() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* out) {
        if (NeedsCudaRuntime(*object)) {
          const bool is_program = object->dlpi_name[0] == '\0';
          static_cast<std::vector<std::string>*>(out)->emplace_back(
              is_program ? "/proc/self/exe" : object->dlpi_name);
        }
        return 0;
      },
      &paths);
  uint64_t fat_binaries = 0;
  for (const std::string& path : paths)
    fat_binaries += FatBinariesOf(path.c_str());
  return CodeBytes(fat_binaries);
}

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_CONTEXT_MEMORY_H_
