#include "virtual_gpu/core/visible_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

using testing::ElementsAre;

std::vector<int> Visible(const char* variable) {
  protocol::Settings settings{};
  settings.devices = 4;
  settings.rank = 9;
  settings.local_rank = 1;
  return VisibleDevices(settings, variable);
}

TEST(VisibleDevicesTest, AreAllWithoutTheVariable) {
  EXPECT_THAT(Visible(nullptr), ElementsAre(0, 1, 2, 3));
}

TEST(VisibleDevicesTest, AreNoneWhereItIsEmptyOrBeginsWithNoDevice) {
  EXPECT_THAT(Visible(""), ElementsAre());
  EXPECT_THAT(Visible("-1"), ElementsAre());
  EXPECT_THAT(Visible("-1,0"), ElementsAre());
  EXPECT_THAT(Visible("4"), ElementsAre());
  EXPECT_THAT(Visible("NoDevFiles"), ElementsAre());
}

// "CUDA_VISIBLE_DEVICES=2,1 makes device 0 not visible and enumerates device 2 before
// device 1."
TEST(VisibleDevicesTest, ComeInTheOrderOfTheList) {
  EXPECT_THAT(Visible("2"), ElementsAre(2));
  EXPECT_THAT(Visible("2,1"), ElementsAre(2, 1));
  EXPECT_THAT(Visible("3,0, 1"), ElementsAre(3, 0, 1));
}

// "CUDA_VISIBLE_DEVICES=0,2,-1,1 makes devices 0 and 2 visible, while device 1 is not
// visible because it appears after the invalid index -1."
TEST(VisibleDevicesTest, EndAtWhatIsInvalid) {
  EXPECT_THAT(Visible("0,2,-1,1"), ElementsAre(0, 2));
  EXPECT_THAT(Visible("1,4,0"), ElementsAre(1));
  EXPECT_THAT(Visible("1,99999999999999999999,0"), ElementsAre(1));
  EXPECT_THAT(Visible("2,,0"), ElementsAre(2));
  EXPECT_THAT(Visible("0,x,2"), ElementsAre(0));
  EXPECT_THAT(Visible("3,MIG-GPU-1/2/3"), ElementsAre(3));
}

// Expectations of torch._parse_visible_devices, which its authors held against the
// driver.
TEST(VisibleDevicesTest, AreWhatPyTorchFoundTheDriverToShow) {
  EXPECT_THAT(Visible("1gpu2,2ampere"), ElementsAre(1, 2));
  EXPECT_THAT(Visible("2,0,2,1"), ElementsAre());
  EXPECT_THAT(Visible("1,GPU-7672616e-6b00-0000-0800-000003"), ElementsAre(1));
}

// Node 8's devices: bytes 8 to 11 of a UUID are the node, 12 to 15 the device.
TEST(VisibleDevicesTest, MayBeNamedByUuid) {
  EXPECT_THAT(Visible("GPU-7672616e-6b00-0000-0800-000002000000,"
                      "GPU-7672616e-6b00-0000-0800-0000"),
              ElementsAre(2));  // the second is the beginning of several
  EXPECT_THAT(Visible("GPU-7672616e-6b00-0000-0800-000003,"
                      "GPU-7672616e-6b00-0000-0800-000001"),
              ElementsAre(3, 1));
  EXPECT_THAT(Visible("GPU-7672616e-6b00-0000-0800-000003,1"), ElementsAre(3));
  EXPECT_THAT(Visible("GPU-7672616e-6b00-0000-0800-000003,"
                      "GPU-7672616e-6b00-0000-0800-00000300"),
              ElementsAre());
  EXPECT_THAT(Visible("GPU-00000000"), ElementsAre());
}

}  // namespace
}  // namespace vrank::gpu
