// Both ways to the checksum must agree: files are written with either.

#include "base/crc32c.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace vrank {
namespace {

TEST(Crc32cTest, GivesTheCheckValue) {
  EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(HostCrc32c("123456789", 9), 0xe3069283u);
}

// From empty to several times what is summed in three parts at a time.
TEST(Crc32cTest, AgreesWithAndWithoutTheInstruction) {
  std::mt19937 random(7);
  std::vector<size_t> sizes;
  for (size_t size = 0; size < 200; ++size)
    sizes.push_back(size);
  for (size_t size = 12'288 - 9; size <= 12'288 + 9; ++size)
    sizes.push_back(size);
  for (int i = 0; i < 100; ++i)
    sizes.push_back(random() % 100'000);
  for (const size_t size : sizes) {
    std::string bytes(size, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random());
    const uint32_t previous = random();
    EXPECT_EQ(HostCrc32c(bytes.data(), size, previous),
              Crc32c(bytes.data(), size, previous))
        << size;
  }
}

}  // namespace
}  // namespace vrank
