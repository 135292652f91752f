// Finds what belongs to one kernel among the sections of a cubin.

#include "virtual_gpu/code/machine_code.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "virtual_gpu/code/decoder.h"
#include "virtual_gpu/code/elf_file.h"

namespace vrank::gpu {
namespace {

// Attributes of .nv.info.KERNEL (see cubin.h): symbol, then place and size of the
// parameters in bank 0.
constexpr uint8_t kParameterBank = 0x0a;
// ... of .nv.info: symbol, then bytes of local memory.
constexpr uint8_t kFrameBytes = 0x11;
// ... the same with what the functions take that it calls, where that is known.
constexpr uint8_t kStackBytes = 0x12;
// What a thread has beyond, where a kernel calls functions: their frames need not be
// stated (cudaLimitStackSize by default).
constexpr uint32_t kDefaultStack = 1024;
// From sm_90 on, shared memory begins with what the system reserves.
constexpr uint32_t kReservedFrom = 90;
constexpr uint64_t kReservedShared = 1024;

struct Symbol {
  std::string_view name;
  Elf64_Sym symbol;
};

// What the driver provides to kernels, and what stores through no pointer of theirs.
bool IsHarmlessFunction(std::string_view name) {
  return name == "__assertfail" || name == "vprintf" || name == "malloc" ||
         name == "free";
}

// A function of another section whose address an entry of the table puts into code.
// Empty: none.
template <typename Entry>
std::string_view CalledOutside(std::string_view table, uint16_t section,
                               const std::vector<Symbol>& symbols) {
  Entry entry;
  for (size_t at = 0; Read(table, at, &entry); at += sizeof entry) {
    const uint64_t number = ELF64_R_SYM(entry.r_info);
    if (number >= symbols.size())
      return "a symbol that is not there";
    const auto& [name, symbol] = symbols[number];
    const bool outside =
        symbol.st_shndx == SHN_UNDEF ||
        (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != section);
    if (outside && !IsHarmlessFunction(name))
      return name;
  }
  return {};
}

// Tables of CUDA's math library: constants, which no program knows by name.
bool IsMathTable(const Symbol& one) {
  return ELF64_ST_TYPE(one.symbol.st_info) == STT_OBJECT &&
         ELF64_ST_BIND(one.symbol.st_info) == STB_LOCAL &&
         one.name.starts_with("__cudart_");
}

// Texts of assertions: constants of the compiler's, likewise.
bool IsText(const Symbol& one) {
  return ELF64_ST_TYPE(one.symbol.st_info) == STT_OBJECT &&
         ELF64_ST_BIND(one.symbol.st_info) == STB_LOCAL &&
         (one.name.starts_with("$str") || one.name.starts_with("__unnamed_") ||
          one.name.find("__func__") != std::string_view::npos ||
          one.name.find("__PRETTY_FUNCTION__") != std::string_view::npos);
}

// Puts the addresses of such tables and texts, and of what a failing assertion calls,
// into bank 4, whose section is `bank4`. `addend`: of an entry.
template <typename Entry, typename Addend>
void PlaceTables(const ElfFile& file, std::string_view bank4, std::string_view entries,
                 const std::vector<Symbol>& symbols, Addend addend, MachineCode* code) {
  constexpr size_t kAlignment = 256;
  constexpr uint32_t kAddress = 2;  // the type of an entry: 64 bits
  std::unordered_map<uint64_t, uint64_t> placed;
  Entry entry;
  for (size_t at = 0; Read(entries, at, &entry); at += sizeof entry) {
    const uint64_t number = ELF64_R_SYM(entry.r_info);
    uint64_t word;
    if (ELF64_R_TYPE(entry.r_info) != kAddress || number >= symbols.size() ||
        !Read(bank4, entry.r_offset, &word))
      continue;
    if (symbols[number].name == "__assertfail") {
      code->bank4.Put(entry.r_offset, &MachineCode::kAssertFail,
                      sizeof MachineCode::kAssertFail);
      continue;
    }
    if (!IsMathTable(symbols[number]) && !IsText(symbols[number]))
      continue;
    const Elf64_Sym& symbol = symbols[number].symbol;
    Elf64_Shdr section;
    if (!file.Section(symbol.st_shndx, &section))
      continue;
    const std::string_view content = file.ContentOf(section);
    if (symbol.st_value > content.size() ||
        symbol.st_size > content.size() - symbol.st_value)
      continue;
    const auto [found, is_new] = placed.emplace(number, code->tables.size());
    if (is_new) {
      code->tables += content.substr(symbol.st_value, symbol.st_size);
      code->tables.resize((code->tables.size() + kAlignment - 1) / kAlignment *
                          kAlignment);
    }
    const uint64_t address =
        MachineCode::kTablesAddress + found->second + addend(entry, word);
    code->bank4.Put(entry.r_offset, &address, sizeof address);
  }
}

}  // namespace

Instruction MachineCode::Unloaded(uint64_t pc) const {
  uint64_t words[2];
  std::memcpy(words, text_.data() + pc, sizeof words);
  return Decode(words[0], words[1], architecture_);
}

bool MachineCode::IsRelocated(uint64_t pc) const {
  return std::binary_search(relocated.begin(), relocated.end(), pc / kInstructionBytes);
}

const Instruction& MachineCode::At(uint64_t pc) {
  const uint64_t index = pc / kInstructionBytes;
  if (decoded_.empty()) {
    decoded_.resize(bytes() / kInstructionBytes);
    is_decoded_.resize(decoded_.size());
  }
  Instruction& one = decoded_[index];
  if (!is_decoded_[index]) {
    one = Unloaded(pc);
    if (IsRelocated(pc)) {
      one.opcode = Opcode::kOther;
      one.name = "an instruction that a loader would change";
    }
    is_decoded_[index] = true;
  }
  return one;
}

const char* ReadMachineCode(const unsigned char* elf, size_t bytes,
                            std::string_view kernel, MachineCode* code) {
  constexpr const char* kDamaged = "its machine code is damaged";
  ElfFile file;
  if (!file.Open({reinterpret_cast<const char*>(elf), bytes}))
    return kDamaged;
  const std::string name(kernel);
  const std::string text_name = ".text." + name, info_name = ".nv.info." + name,
                    shared_name = ".nv.shared." + name,
                    rela_name = ".rela.text." + name, rel_name = ".rel.text." + name,
                    bank2_name = ".nv.constant2." + name;
  std::string_view text, info, global_info, bank2, file_bank2, rela, rel;
  std::string_view bank4, bank4_rela, bank4_rel;
  uint64_t shared = 0;
  std::vector<Symbol> symbols;
  uint16_t text_section = 0;
  uint32_t symbol = 0;
  bool has_symbol = false;
  for (size_t i = 0; i < file.sections(); ++i) {
    Elf64_Shdr one;
    std::string_view section;
    if (!file.Section(i, &one) || !file.NameOf(one, &section))
      return kDamaged;
    const std::string_view content = file.ContentOf(one);
    if (section == text_name) {
      text = content;
      text_section = static_cast<uint16_t>(i);
    }
    if (section == info_name)
      info = content;
    else if (section == ".nv.info")
      global_info = content;
    else if (section == shared_name)
      shared = one.sh_size;
    else if (section == bank2_name)
      bank2 = content;
    else if (section == ".nv.constant2")
      file_bank2 = content;
    else if (section == ".nv.constant4")
      bank4 = content;
    else if (section == ".rela.nv.constant4")
      bank4_rela = content;
    else if (section == ".rel.nv.constant4")
      bank4_rel = content;
    else if (section == rela_name)
      rela = content;
    else if (section == rel_name)
      rel = content;
    else if (one.sh_type == SHT_SYMTAB &&
             !file.ForSymbols(one, [&](uint32_t number, std::string_view text_of,
                                       const Elf64_Sym& entry) {
               symbols.push_back({text_of, entry});
               if (text_of != name)
                 return;
               symbol = number;
               has_symbol = true;
             }))
      return kDamaged;
  }
  if (text.empty() || text.size() % kInstructionBytes != 0)
    return "its machine code is not there";
  if (!Decodes(file.architecture()))
    return "its architecture is not interpreted";
  MachineCode made(std::string(text), file.architecture());
  bool has_parameters = false;
  const bool whole =
      ForAttributes(info, [&](uint8_t kind, uint16_t, std::string_view from) {
        if (kind != kParameterBank)
          return true;
        uint16_t base, size;
        if (!Read(from, 4, &base) || !Read(from, 6, &size))
          return false;
        made.parameter_base = base;
        made.parameter_bytes = size;
        has_parameters = true;
        return true;
      });
  const bool global_whole =
      ForAttributes(global_info, [&](uint8_t kind, uint16_t, std::string_view from) {
        uint32_t number, frame;
        if (kind != kFrameBytes && kind != kStackBytes)
          return true;
        if (!Read(from, 0, &number) || !Read(from, 4, &frame))
          return false;
        if (has_symbol && number == symbol)
          made.local_bytes = std::max(made.local_bytes, frame);
        return true;
      });
  if (!whole || !global_whole)
    return kDamaged;
  if (!has_parameters)
    return "where its parameters lie is not said";
  if (std::any_of(symbols.begin(), symbols.end(), [&](const Symbol& one) {
        return ELF64_ST_TYPE(one.symbol.st_info) == STT_FUNC &&
               one.symbol.st_shndx == text_section && one.name != name;
      }))
    made.local_bytes += kDefaultStack;
  const uint64_t reserved = file.architecture() >= kReservedFrom ? kReservedShared : 0;
  made.shared_bytes = static_cast<uint32_t>(std::max(shared, reserved));
  made.bank2 = bank2.empty() ? file_bank2 : bank2;
  PlaceTables<Elf64_Rela>(
      file, bank4, bank4_rela, symbols,
      [](const Elf64_Rela& entry, uint64_t) {
        return static_cast<uint64_t>(entry.r_addend);
      },
      &made);
  PlaceTables<Elf64_Rel>(
      file, bank4, bank4_rel, symbols,
      [](const Elf64_Rel&, uint64_t word) { return word; }, &made);
  const auto note = [&](std::string_view table, size_t each) {
    uint64_t offset;
    for (size_t at = 0; Read(table, at, &offset); at += each)
      made.relocated.push_back(offset / kInstructionBytes);
  };
  note(rela, sizeof(Elf64_Rela));
  note(rel, sizeof(Elf64_Rel));
  std::sort(made.relocated.begin(), made.relocated.end());
  made.calls = CalledOutside<Elf64_Rela>(rela, text_section, symbols);
  if (made.calls.empty())
    made.calls = CalledOutside<Elf64_Rel>(rel, text_section, symbols);
  constexpr uint64_t kNumber = 0x1ff, kCallAbsolute = 0x143;
  uint64_t word;
  for (size_t at = 0; Read(text, at, &word); at += kInstructionBytes)
    made.asserts = made.asserts || (word & kNumber) == kCallAbsolute;
  *code = std::move(made);
  return nullptr;
}

}  // namespace vrank::gpu
