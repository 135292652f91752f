// Reads sections of an ELF file whose every offset may be wrong.

#include "virtual_gpu/code/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "virtual_gpu/code/thread_work.h"

namespace vrank::gpu {
namespace {

constexpr std::string_view kInfo = ".nv.info.";
constexpr std::string_view kCode = ".text.";
// Since this version of the format, the architecture is in the second byte of the
// flags.
constexpr unsigned char kSecondByte = 8;
constexpr uint8_t kSized = 4;
constexpr uint8_t kParameter = 0x17;
constexpr uint8_t kLargeParameter = 0x45;
constexpr uint32_t kParameterBytes = 12;
constexpr int kSizeShift = 18;

template <typename T>
bool Read(std::string_view from, size_t offset, T* value) {
  if (offset > from.size() || from.size() - offset < sizeof(T))
    return false;
  std::memcpy(value, from.data() + offset, sizeof(T));
  return true;
}

// The attributes of one kernel. False where they are damaged.
bool ReadAttributes(std::string_view info, ParameterPlaces* places) {
  for (size_t at = 0; at < info.size();) {
    uint8_t format, kind;
    uint16_t value;
    if (!Read(info, at, &format) || !Read(info, at + 1, &kind) ||
        !Read(info, at + 2, &value))
      return false;
    at += 4;
    if (format != kSized)
      continue;
    if (info.size() - at < value)
      return false;
    if (kind == kParameter || kind == kLargeParameter) {
      uint16_t ordinal, offset;
      uint32_t size;
      if (value != kParameterBytes || !Read(info, at + 4, &ordinal) ||
          !Read(info, at + 6, &offset) || !Read(info, at + 8, &size))
        return false;
      if (ordinal >= places->size())
        places->resize(size_t{ordinal} + 1);
      (*places)[ordinal] = {offset, kind == kParameter ? size >> kSizeShift : size};
    }
    at += value;
  }
  // Ordinals without gaps, each behind the one before.
  uint32_t end = 0;
  return std::all_of(places->begin(), places->end(), [&](const ParameterPlace& place) {
    const bool behind = place.size > 0 && place.offset >= end;
    end = place.offset + place.size;
    return behind;
  });
}

}  // namespace

const char* ReadCubin(const unsigned char* elf, size_t bytes, CubinKernels* kernels) {
  constexpr const char* kDamaged = "its machine code is damaged";
  const std::string_view file(reinterpret_cast<const char*>(elf), bytes);
  Elf64_Ehdr header;
  if (!Read(file, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_shentsize != sizeof(Elf64_Shdr))
    return kDamaged;
  auto section = [&](size_t index, Elf64_Shdr* found) {
    return Read(file, header.e_shoff + index * sizeof(Elf64_Shdr), found) &&
           (found->sh_type == SHT_NOBITS ||
            (found->sh_offset <= bytes && found->sh_size <= bytes - found->sh_offset));
  };
  Elf64_Shdr names;
  if (!section(header.e_shstrndx, &names))
    return kDamaged;
  const uint32_t architecture =
      header.e_flags >> (header.e_ident[EI_ABIVERSION] >= kSecondByte ? 8 : 0) & 0xff;
  std::unordered_map<std::string_view, ThreadWork> work;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr one;
    if (!section(i, &one) || one.sh_name >= names.sh_size)
      return kDamaged;
    const char* begin = file.data() + names.sh_offset + one.sh_name;
    const std::string_view name(begin, strnlen(begin, names.sh_size - one.sh_name));
    if (one.sh_type == SHT_NOBITS)
      continue;
    const std::string_view content = file.substr(one.sh_offset, one.sh_size);
    if (name.starts_with(kInfo)) {
      CubinKernel& kernel = (*kernels)[std::string(name.substr(kInfo.size()))];
      if (!ReadAttributes(content, &kernel.places))
        return kDamaged;
    } else if (name.starts_with(kCode)) {
      work[name.substr(kCode.size())] = ReadThreadWork(content, architecture);
    }
  }
  // Functions that are no kernels have code, too.
  for (auto& [name, kernel] : *kernels)
    kernel.thread_work = work[name];
  return nullptr;
}

bool Complete(const ParameterPlaces& places, KernelSignature* signature) {
  if (places.size() > KernelSignature::kMaxParameters ||
      signature->count > places.size())
    return false;
  for (uint32_t i = 0; i < places.size(); ++i) {
    KernelParameter& parameter = signature->parameters[i];
    const bool other = i < signature->known && (parameter.offset != places[i].offset ||
                                                parameter.size != places[i].size);
    if (i >= signature->count || other)
      parameter = {0, 0, ParameterKind::kStruct, false};
    parameter.offset = places[i].offset;
    parameter.size = places[i].size;
  }
  signature->count = signature->known = static_cast<uint32_t>(places.size());
  signature->bytes = places.empty() ? 0 : places.back().offset + places.back().size;
  signature->complete = true;
  return true;
}

}  // namespace vrank::gpu
