// Sections, symbols and attributes of a cubin, whose every offset may be wrong.
//
// Thread rule: an object belongs to one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_CODE_ELF_FILE_H_
#define VRANK_VIRTUAL_GPU_CODE_ELF_FILE_H_

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace vrank::gpu {

// Since this version of the format, the architecture is in the second byte of the
// flags.
inline constexpr unsigned char kSecondByte = 8;
inline constexpr uint8_t kSizedAttribute = 4;

template <typename T>
bool Read(std::string_view from, size_t offset, T* value) {
  if (offset > from.size() || from.size() - offset < sizeof(T))
    return false;
  std::memcpy(value, from.data() + offset, sizeof(T));
  return true;
}

// Calls `visit(kind, value, payload)` for each attribute. False where they are damaged,
// or where `visit` says so.
template <typename Visit>
bool ForAttributes(std::string_view info, Visit visit) {
  for (size_t at = 0; at < info.size();) {
    uint8_t format, kind;
    uint16_t value;
    if (!Read(info, at, &format) || !Read(info, at + 1, &kind) ||
        !Read(info, at + 2, &value))
      return false;
    at += 4;
    const size_t bytes = format == kSizedAttribute ? value : 0;
    if (info.size() - at < bytes || !visit(kind, value, info.substr(at, bytes)))
      return false;
    at += bytes;
  }
  return true;
}

// An ELF file whose tables were found.
class ElfFile {
 public:
  // False where it is damaged.
  bool Open(std::string_view bytes) {
    bytes_ = bytes;
    return Read(bytes, 0, &header_) &&
           std::memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 &&
           header_.e_shentsize == sizeof(Elf64_Shdr) &&
           Section(header_.e_shstrndx, &names_);
  }
  size_t sections() const { return header_.e_shnum; }
  uint32_t architecture() const {
    return header_.e_flags >> (header_.e_ident[EI_ABIVERSION] >= kSecondByte ? 8 : 0) &
           0xff;
  }
  bool Section(size_t index, Elf64_Shdr* found) const {
    return Read(bytes_, header_.e_shoff + index * sizeof(Elf64_Shdr), found) &&
           (found->sh_type == SHT_NOBITS ||
            (found->sh_offset <= bytes_.size() &&
             found->sh_size <= bytes_.size() - found->sh_offset));
  }
  std::string_view ContentOf(const Elf64_Shdr& section) const {
    return section.sh_type == SHT_NOBITS
               ? std::string_view()
               : bytes_.substr(section.sh_offset, section.sh_size);
  }
  bool NameOf(const Elf64_Shdr& section, std::string_view* name) const {
    return TextAt(names_, section.sh_name, name);
  }
  // Calls `visit(number, name, symbol)` for each symbol.
  template <typename Visit>
  bool ForSymbols(const Elf64_Shdr& table, Visit visit) const {
    Elf64_Shdr texts;
    if (!Section(table.sh_link, &texts))
      return false;
    const std::string_view content = ContentOf(table);
    Elf64_Sym symbol;
    for (uint32_t i = 0; Read(content, i * sizeof symbol, &symbol); ++i) {
      std::string_view name;
      if (!TextAt(texts, symbol.st_name, &name))
        return false;
      visit(i, name, symbol);
    }
    return true;
  }

 private:
  bool TextAt(const Elf64_Shdr& table, uint64_t offset, std::string_view* text) const {
    if (table.sh_type == SHT_NOBITS || offset >= table.sh_size)
      return false;
    const char* const begin = bytes_.data() + table.sh_offset + offset;
    *text = {begin, strnlen(begin, table.sh_size - offset)};
    return true;
  }

  std::string_view bytes_;
  Elf64_Ehdr header_;
  Elf64_Shdr names_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CODE_ELF_FILE_H_
