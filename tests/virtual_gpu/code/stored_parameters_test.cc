// Which parameters kernels store through, against their source (stores.cu). That
// nothing is missing is also checked wherever kernels run by their code
// (interpreter_fixture.h).

#include "virtual_gpu/code/stored_parameters.h"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

using Words = std::vector<uint32_t>;

class StoredParametersTest : public testing::TestWithParam<int> {
 protected:
  StoredParameters Find(const char* kernel, const Words& pointers) {
    const std::string path =
        VRANK_IMAGES "/stores" + std::to_string(GetParam()) + ".cubin";
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    MachineCode code;
    const char* const problem =
        ReadMachineCode(reinterpret_cast<const unsigned char*>(bytes.data()),
                        bytes.size(), kernel, &code);
    EXPECT_EQ(problem, nullptr) << problem;
    return FindStoredParameters(code, pointers);
  }

  void Expect(const char* kernel, const Words& pointers, const Words& stored) {
    const StoredParameters found = Find(kernel, pointers);
    EXPECT_TRUE(found.known) << kernel << ": " << found.why;
    EXPECT_EQ(found.words, stored) << kernel;
  }
};

TEST_P(StoredParametersTest, AreThoseOfTheSource) {
  Expect("axpy", {0, 8}, {8});
  Expect("gather_rows", {8, 16, 24}, {16});
  Expect("scatter_add", {0, 8, 16}, {16});
  Expect("listed_by_value", {0, 8, 16, 24, 32}, {0, 8, 16, 24});
}

TEST_P(StoredParametersTest, AreAllThatMayBeMeant) {
  Expect("either", {0, 8, 16}, {0, 8});
  Expect("ping_pong", {0, 8, 16}, {0, 8});
  Expect("staged", {0, 8}, {0});
  // A register that the function leaves alone may be any caller's.
  const StoredParameters calls = Find("calls", {0, 8, 16});
  EXPECT_TRUE(calls.known) << calls.why;
  EXPECT_EQ(calls.words.front(), 0u);
}

// A null pointer is no address: nothing goes there.
TEST_P(StoredParametersTest, LeaveNullPointersOut) {
  Expect("either", {0, 16}, {0});
  Expect("axpy", {0}, {});
}

// Addresses that stand in unused parts of a structure.
TEST_P(StoredParametersTest, AreNoDivisorsAndNoStrides) {
  Expect("strided", {0, 8, 16, 24, 32, 40, 48}, {0});
}

TEST_P(StoredParametersTest, AreNotToldWherePointersComeFromMemory) {
  for (const char* kernel : {"listed", "next_in_list", "to_a_variable"}) {
    const StoredParameters found = Find(kernel, {0});
    EXPECT_FALSE(found.known) << kernel;
    EXPECT_EQ(found.why, "an address from memory") << kernel;
  }
}

TEST_P(StoredParametersTest, AreNotToldOfManyPointers) {
  Words pointers;
  for (uint32_t i = 0; i < 100; ++i)
    pointers.push_back(8 * i);
  EXPECT_FALSE(Find("axpy", pointers).known);
}

INSTANTIATE_TEST_SUITE_P(Architectures, StoredParametersTest, testing::Values(80, 90));

}  // namespace
}  // namespace vrank::gpu
