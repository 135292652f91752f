// Compares the signatures with those that nvcc writes into PTX for kernels.cu.
//
// PTX lists the parameters of an entry in order, with type, size and alignment:
//   .visible .entry _Z5PlainfPKfPfi(
//       .param .f32 _Z5PlainfPKfPfi_param_0,
//       .param .align 16 .b8 _Z5PlainfPKfPfi_param_1[16],

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/guest/kernel_signature.h"

namespace vrank {
namespace {

struct Parameter {
  uint32_t size, alignment;
  bool operator==(const Parameter&) const = default;
};
struct Entry {
  std::string name;
  std::vector<Parameter> parameters;
};

// The unsigned number that follows `mark` in `line`; 0 if there is none.
uint32_t NumberAfter(const std::string& line, std::string_view mark) {
  const size_t at = line.find(mark);
  return at == std::string::npos ? 0
                                 : static_cast<uint32_t>(std::strtoul(
                                       &line[at + mark.size()], nullptr, 10));
}

std::vector<Entry> ReadEntries(const char* path) {
  std::vector<Entry> entries;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (const size_t at = line.find(".entry "); at != std::string::npos) {
      const size_t begin = at + strlen(".entry ");
      entries.push_back({line.substr(begin, line.find('(') - begin), {}});
    } else if (line.find("\t.param ") == 0 && !entries.empty()) {
      const uint32_t alignment = NumberAfter(line, ".align ");
      const uint32_t bytes =
          alignment > 0
              ? NumberAfter(line, "[")
              : static_cast<uint32_t>(std::strtoul(&line[10], nullptr, 10)) / 8;
      entries.back().parameters.push_back({bytes, alignment > 0 ? alignment : bytes});
    }
  }
  return entries;
}

TEST(KernelSignatureNvccTest, AgreesWithTheCompiler) {
  const std::vector<Entry> entries = ReadEntries(VRANK_KERNELS_PTX);
  ASSERT_GE(entries.size(), 27u) << VRANK_KERNELS_PTX;
  for (const Entry& entry : entries) {
    SCOPED_TRACE(entry.name);
    KernelSignature signature;
    EXPECT_TRUE(ParseKernelSignature(entry.name, &signature));
    ASSERT_EQ(signature.count, entry.parameters.size());
    uint32_t offset = 0;
    for (uint32_t i = 0; i < signature.known; ++i) {
      const Parameter& expected = entry.parameters[i];
      offset =
          (offset + expected.alignment - 1) / expected.alignment * expected.alignment;
      EXPECT_EQ(signature.parameters[i].size, expected.size) << "parameter " << i;
      EXPECT_EQ(signature.parameters[i].offset, offset) << "parameter " << i;
      offset += expected.size;
    }
  }
}

}  // namespace
}  // namespace vrank
