// Who holds which device: programs and NCCL compare UUIDs and bus numbers between
// ranks.

#include "virtual_gpu/core/device_attributes.h"

#include <array>
#include <map>
#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

constexpr uint32_t kPerNode = 8;

std::array<unsigned char, 16> Uuid(uint32_t rank, int device) {
  protocol::Settings settings{};
  settings.rank = rank;
  settings.world_size = 4 * kPerNode;
  settings.local_rank = rank % kPerNode;
  settings.local_world_size = settings.devices = kPerNode;
  std::array<unsigned char, 16> uuid;
  DeviceUuid(settings, device, uuid.data());
  return uuid;
}

TEST(DeviceIdentityTest, AUuidBelongsToOneDeviceOfOneNode) {
  std::map<std::array<unsigned char, 16>, std::pair<uint32_t, int>> owners;
  for (uint32_t rank = 0; rank < 4 * kPerNode; ++rank) {
    for (int device = 0; device < static_cast<int>(kPerNode); ++device) {
      const std::pair owner(rank / kPerNode, device);
      const auto [known, first] = owners.try_emplace(Uuid(rank, device), owner);
      EXPECT_EQ(known->second, owner) << "rank " << rank;
    }
  }
  EXPECT_EQ(owners.size(), 4 * kPerNode);
}

TEST(DeviceIdentityTest, ABusNumberBelongsToOneDeviceOfANode) {
  std::set<int> buses;
  constexpr int kMost = 128;
  for (int device = 0; device < kMost; ++device) {
    const auto bus = DeviceAttribute({}, device, 33);  // cudaDevAttrPciBusId
    ASSERT_TRUE(bus.has_value());
    EXPECT_EQ(*bus, DeviceBus(device));
    EXPECT_LT(*bus, 0xc0);  // where the switches begin
    buses.insert(*bus);
  }
  EXPECT_EQ(buses.size(), size_t{kMost});
}

}  // namespace
}  // namespace vrank::gpu
