// Attributes of kernels.

#include "virtual_gpu/code/cubin.h"

#include <algorithm>
#include <cstring>

#include "virtual_gpu/code/elf_file.h"
#include "virtual_gpu/code/thread_work.h"

namespace vrank::gpu {
namespace {

constexpr std::string_view kInfo = ".nv.info.";
constexpr std::string_view kGlobalInfo = ".nv.info";
constexpr std::string_view kCode = ".text.";
constexpr std::string_view kShared = ".nv.shared.";
// From sm_90 on, a kernel's shared memory begins with what the system reserves.
constexpr uint32_t kReservedFrom = 90;
constexpr uint64_t kReservedShared = 1024;

// Kinds of attributes. What follows, in words of 32 bits:
enum : uint8_t {
  kMaxThreads = 0x05,  // x, y, z of the largest block (__launch_bounds__)
  kRequiredBlock = 0x10,
  kFrameBytes = 0x11,  // symbol, bytes of local memory
  // Index, then ordinal and offset of 16 bits each, then the size in the upper 14 bits.
  kParameter = 0x17,
  kRegisters = 0x2f,         // symbol, registers
  kRequiredCluster = 0x3d,   // x, y, z
  kNeedsCluster = 0x3e,      // nothing
  kMaxCluster = 0x3f,        // blocks
  kLargeParameter = 0x45,    // as 0x17, but all of the last word is the size
  kBarriers = 0x4c,          // nothing: the value is the number
  kBlocksAreClusters = 0x5b  // nothing
};
constexpr uint32_t kParameterBytes = 12;
constexpr int kSizeShift = 18;

bool ReadParameter(uint8_t kind, std::string_view from, ParameterPlaces* places) {
  uint16_t ordinal, offset;
  uint32_t size;
  if (from.size() != kParameterBytes || !Read(from, 4, &ordinal) ||
      !Read(from, 6, &offset) || !Read(from, 8, &size))
    return false;
  if (ordinal >= places->size())
    places->resize(size_t{ordinal} + 1);
  (*places)[ordinal] = {offset, kind == kParameter ? size >> kSizeShift : size};
  return true;
}

bool ReadDimensions(std::string_view from, uint32_t (&dimensions)[3]) {
  return Read(from, 0, &dimensions);
}

// The attributes of one kernel. False where they are damaged.
bool ReadAttributes(std::string_view info, CubinKernel* kernel) {
  KernelResources& resources = kernel->resources;
  const bool whole =
      ForAttributes(info, [&](uint8_t kind, uint16_t value, std::string_view from) {
        switch (kind) {
          case kParameter:
          case kLargeParameter:
            return ReadParameter(kind, from, &kernel->places);
          case kMaxThreads: {
            uint32_t block[3];
            if (!ReadDimensions(from, block))
              return false;
            resources.most_threads = block[0] * block[1] * block[2];
            return true;
          }
          case kRequiredBlock:
            return ReadDimensions(from, resources.block);
          case kRequiredCluster:
            return ReadDimensions(from, resources.cluster);
          case kMaxCluster:
            return Read(from, 0, &resources.most_cluster);
          case kBarriers:
            resources.barriers = value;
            return true;
          case kNeedsCluster:
            resources.needs_cluster = true;
            return true;
          case kBlocksAreClusters:
            resources.blocks_are_clusters = true;
            return true;
          default:
            return true;
        }
      });
  // Ordinals without gaps, each behind the one before.
  uint32_t end = 0;
  return whole && std::all_of(kernel->places.begin(), kernel->places.end(),
                              [&](const ParameterPlace& place) {
                                const bool behind =
                                    place.size > 0 && place.offset >= end;
                                end = place.offset + place.size;
                                return behind;
                              });
}

struct SymbolNumbers {
  std::unordered_map<uint32_t, uint32_t> registers, frame_bytes;  // by symbol
};

bool ReadGlobalAttributes(std::string_view info, SymbolNumbers* numbers) {
  return ForAttributes(info, [&](uint8_t kind, uint16_t, std::string_view from) {
    if (kind != kRegisters && kind != kFrameBytes)
      return true;
    uint32_t symbol, number;
    if (!Read(from, 0, &symbol) || !Read(from, 4, &number))
      return false;
    (kind == kRegisters ? numbers->registers : numbers->frame_bytes)[symbol] = number;
    return true;
  });
}

}  // namespace

uint32_t ArchitectureOf(const unsigned char* elf, size_t bytes) {
  ElfFile file;
  return file.Open({reinterpret_cast<const char*>(elf), bytes}) ? file.architecture()
                                                                : 0;
}

const char* ReadCubin(const unsigned char* elf, size_t bytes, uint32_t architecture,
                      CubinKernels* kernels) {
  constexpr const char* kDamaged = "its machine code is damaged";
  ElfFile file;
  if (!file.Open({reinterpret_cast<const char*>(elf), bytes}))
    return kDamaged;
  // Functions that are no kernels have code, symbols and frames, too.
  std::unordered_map<std::string_view, ThreadWork> work;
  std::unordered_map<std::string_view, uint64_t> shared;
  std::unordered_map<std::string_view, uint32_t> symbols;
  SymbolNumbers numbers;
  for (size_t i = 0; i < file.sections(); ++i) {
    Elf64_Shdr one;
    std::string_view name;
    if (!file.Section(i, &one) || !file.NameOf(one, &name))
      return kDamaged;
    const std::string_view content = file.ContentOf(one);
    bool whole = true;
    if (name.starts_with(kInfo))
      whole =
          ReadAttributes(content, &(*kernels)[std::string(name.substr(kInfo.size()))]);
    else if (name == kGlobalInfo)
      whole = ReadGlobalAttributes(content, &numbers);
    else if (name.starts_with(kCode))
      work[name.substr(kCode.size())] = ReadThreadWork(content, file.architecture());
    else if (name.starts_with(kShared))
      shared[name.substr(kShared.size())] = one.sh_size;
    else if (one.sh_type == SHT_SYMTAB)
      whole = file.ForSymbols(one, [&](uint32_t number, std::string_view text,
                                       const Elf64_Sym&) { symbols[text] = number; });
    if (!whole)
      return kDamaged;
  }
  const uint64_t reserved = file.architecture() >= kReservedFrom ? kReservedShared : 0;
  for (auto& [name, kernel] : *kernels) {
    KernelResources& resources = kernel.resources;
    const auto symbol = symbols.find(name);
    const uint64_t all_shared = shared[name];
    kernel.thread_work = work[name];
    resources.shared_bytes =
        static_cast<uint32_t>(all_shared - std::min(all_shared, reserved));
    if (symbol == symbols.end())
      continue;
    resources.registers = numbers.registers[symbol->second];
    resources.local_bytes = numbers.frame_bytes[symbol->second];
    resources.known =
        resources.registers > 0 && Runs(architecture, file.architecture());
  }
  return nullptr;
}

bool Complete(const ParameterPlaces& places, KernelSignature* signature) {
  if (signature->count > places.size())
    return false;
  signature->parameters.resize(places.size());
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
