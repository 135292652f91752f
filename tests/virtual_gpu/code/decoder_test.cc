// Words of shipped code, as nvdisasm (CUDA 13.0) shows them.

#include "virtual_gpu/code/decoder.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

bool IsUnderstood(uint64_t low, uint64_t high, uint32_t architecture) {
  return Decode(low, high, architecture).opcode != Opcode::kOther;
}

// Bits 81-83 name a predicate in LDG. In LD they name nothing, and compilers leave 0
// there: LD.E.128.STRONG.GPU R12, desc[UR8][R32.64+0x200], of CUB's scan.
TEST(DecoderTest, GenericLoadsHaveNoPredicate) {
  constexpr uint64_t kLow = 0x00020008200c7980, kHigh = 0x000ea2000c10fd00;
  constexpr uint64_t kLdg = 1, kNoPredicate = uint64_t{7} << 17;
  for (const uint32_t architecture : {80u, 90u}) {
    EXPECT_TRUE(IsUnderstood(kLow, kHigh, architecture));
    EXPECT_TRUE(IsUnderstood(kLow, kHigh | kNoPredicate, architecture));
    // LDG.E.128.STRONG.GPU P0, R12, ...: whether what was loaded is zero.
    EXPECT_FALSE(IsUnderstood(kLow | kLdg, kHigh, architecture));
    EXPECT_TRUE(IsUnderstood(kLow | kLdg, kHigh | kNoPredicate, architecture));
  }
}

// --- What nvdisasm prints of instructions that nvcc made (instructions.txt)

struct Printed {
  uint32_t architecture = 0;
  uint64_t low = 0, high = 0;
  std::string guard, operation;
  std::vector<std::string> operands;
};

// A register, constant or number among the operands.
struct PrintedOperand {
  Operand::Kind kind = Operand::Kind::kNone;
  uint32_t index = 0;
  bool negate = false, absolute = false;
  std::string number;
};

std::vector<Printed> ReadPrinted() {
  std::ifstream file(VRANK_INSTRUCTIONS);
  std::vector<Printed> all;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find(" (*"));
    std::istringstream words(line);
    Printed one;
    std::string low, high;
    words >> one.architecture >> low >> high >> one.operation;
    one.low = std::stoull(low, nullptr, 16);
    one.high = std::stoull(high, nullptr, 16);
    if (one.operation.starts_with('@')) {
      one.guard = one.operation.substr(1);
      words >> one.operation;
    }
    for (std::string operand; std::getline(words, operand, ',');) {
      std::erase(operand, ' ');
      one.operands.push_back(operand);
    }
    all.push_back(one);
  }
  return all;
}

// kNone: a predicate, an address, or another word.
PrintedOperand ReadOperand(std::string text) {
  PrintedOperand one;
  if (text.starts_with('-') || text.starts_with('~')) {
    one.negate = true;
    text.erase(0, 1);
  }
  if (text.starts_with('|')) {
    one.absolute = true;
    std::erase(text, '|');
  }
  const auto is_number = [](char c) { return std::isdigit(c) != 0; };
  if (text.starts_with("c[0x") && text.find("][0x") != std::string::npos) {
    one.kind = Operand::Kind::kConstant;
    const size_t offset = text.find("][");
    one.index = static_cast<uint32_t>(std::stoul(text.substr(4), nullptr, 16)) << 16 |
                static_cast<uint32_t>(std::stoul(text.substr(offset + 2), nullptr, 16));
    return one;
  }
  const bool uniform = text.starts_with("UR");
  if (uniform || text.starts_with('R')) {
    const std::string rest = text.substr(uniform ? 2 : 1);
    one.kind = uniform ? Operand::Kind::kUniform : Operand::Kind::kRegister;
    if (rest.starts_with('Z'))
      one.index = uniform ? kZeroUniform : kZeroRegister;
    else if (!rest.empty() && is_number(rest[0]))
      one.index = static_cast<uint32_t>(std::stoul(rest));
    else
      one.kind = Operand::Kind::kNone;
    return one;
  }
  const bool named = text.starts_with("+INF") || text.starts_with("INF") ||
                     text.find("NAN") != std::string::npos;
  if (named || (!text.empty() && is_number(text[0]))) {
    one.kind = Operand::Kind::kImmediate;
    one.number = (one.negate ? "-" : "") + text;
    one.negate = false;
  }
  return one;
}

bool Agrees(const Operand& decoded, const PrintedOperand& printed) {
  if (decoded.kind != printed.kind)
    return false;
  switch (decoded.kind) {
    case Operand::Kind::kConstant:
      return (uint32_t{decoded.index} << 16 | decoded.value) == printed.index &&
             decoded.negate == printed.negate && decoded.absolute == printed.absolute;
    case Operand::Kind::kImmediate:
      // Others are floats of the operation's size.
      return printed.number.find("0x") == std::string::npos ||
             decoded.value ==
                 static_cast<uint32_t>(std::stoll(printed.number, nullptr, 16));
    default:
      return decoded.index == printed.index && decoded.negate == printed.negate &&
             decoded.absolute == printed.absolute;
  }
}

std::string BaseOf(std::string_view operation) {
  return std::string(operation.substr(0, operation.find('.')));
}

// Its sources, in the order of the text, are A, B and C, of which it may lack some.
// `sources`: what is printed behind the destination.
bool HasSources(const Instruction& one, const std::vector<PrintedOperand>& sources) {
  const Operand* const decoded[] = {&one.a, &one.b, &one.c};
  size_t next = 0;
  for (const PrintedOperand& source : sources) {
    while (next < 3 && !Agrees(*decoded[next], source))
      ++next;
    if (next++ == 3)
      return false;
  }
  return true;
}

TEST(InstructionsTest, AreDecodedAsNvdisasmPrintsThem) {
  // These have numbers behind their operands: a table, or a shift.
  const std::set<std::string> has_number = {"LOP3", "ULOP3", "LEA", "ULEA"};
  // What they store or exchange, the operation reads itself.
  const std::set<std::string> memory = {"LD",    "LDG",   "LDC", "LDL", "LDS",
                                        "ST",    "STG",   "STL", "STS", "ATOM",
                                        "ATOMG", "ATOMS", "RED", "REDG"};
  // Half precision prints two numbers for one.
  const std::set<std::string> has_pair = {"HFMA2", "HADD2", "HMUL2", "HSET2", "HSETP2"};
  size_t compared = 0;
  for (const Printed& printed : ReadPrinted()) {
    const Instruction one = Decode(printed.low, printed.high, printed.architecture);
    std::ostringstream text;
    text << "sm_" << printed.architecture << " " << printed.guard << " "
         << printed.operation;
    for (const std::string& operand : printed.operands)
      text << " " << operand;
    SCOPED_TRACE(text.str());
    const std::string base = BaseOf(printed.operation);
    ASSERT_NE(one.opcode, Opcode::kOther);
    // With a descriptor RED is REDG.
    EXPECT_TRUE(BaseOf(one.name) == base ||
                (base == "REDG" && BaseOf(one.name) == "RED"))
        << one.name;
    std::string guard = one.guard_not ? "!" : "";
    guard += (one.uniform ? "UP" : "P") + std::to_string(one.guard);
    EXPECT_EQ(one.guard == kTruePredicate && !one.guard_not ? "" : guard,
              printed.guard);
    if (one.a.kind == Operand::Kind::kNone && one.b.kind == Operand::Kind::kNone)
      continue;  // the operation reads them itself
    if (memory.contains(base)) {
      for (const std::string& operand : printed.operands) {
        const size_t at = operand.find("[R");
        if (at != std::string::npos) {
          EXPECT_EQ(one.a.index, ReadOperand(operand.substr(at + 1)).index);
        }
      }
      ++compared;
      continue;
    }
    std::vector<PrintedOperand> operands;
    for (const std::string& operand : printed.operands)
      if (const PrintedOperand read = ReadOperand(operand);
          read.kind != Operand::Kind::kNone)
        operands.push_back(read);
    // ISETP and its like write predicates alone.
    const bool writes = !printed.operands.empty() &&
                        ReadOperand(printed.operands[0]).kind != Operand::Kind::kNone;
    const bool late = base == "LOP3" || base == "R2UR" || base == "ULOP3";
    if (!operands.empty() && (writes || late)) {
      EXPECT_EQ(one.destination, operands[0].index);
      operands.erase(operands.begin());
    }
    if (has_number.contains(base) && !operands.empty() &&
        operands.back().kind == Operand::Kind::kImmediate)
      operands.pop_back();
    if (has_pair.contains(base))
      for (size_t i = 1; i < operands.size(); ++i)
        if (operands[i].kind == Operand::Kind::kImmediate &&
            operands[i - 1].kind == Operand::Kind::kImmediate)
          operands.erase(operands.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_TRUE(HasSources(one, operands));
    ++compared;
  }
  EXPECT_GT(compared, 500u);
}

}  // namespace
}  // namespace vrank::gpu
