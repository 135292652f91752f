// libnvidia-ml, called as programs call it, over the virtual GPU on a fake channel.

#include <nvml.h>

#include <string>

#include "tests/virtual_gpu/testing/library_fixture.h"

namespace vrank::gpu {
namespace {

class NvmlTest : public LibraryTest {
 protected:
  NvmlTest() { EXPECT_EQ(nvmlInit(), NVML_SUCCESS); }
  ~NvmlTest() override { EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS); }

  nvmlDevice_t Device(unsigned index) {
    nvmlDevice_t device = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex(index, &device), NVML_SUCCESS);
    return device;
  }
  std::string Uuid(unsigned index) {
    char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    EXPECT_EQ(nvmlDeviceGetUUID(Device(index), text, sizeof text), NVML_SUCCESS);
    return text;
  }
};

TEST(NvmlStateTest, AsksForInitialisation) {
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetCount(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

TEST_F(NvmlTest, FindsDevicesByEveryKey) {
  unsigned count = 0;
  ASSERT_EQ(nvmlDeviceGetCount(&count), NVML_SUCCESS);
  ASSERT_EQ(count, 2u);
  EXPECT_NE(Uuid(0), Uuid(1));
  EXPECT_THAT(Uuid(1),
              ::testing::MatchesRegex("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"));
  nvmlDevice_t found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(Uuid(1).c_str(), &found), NVML_SUCCESS);
  EXPECT_EQ(found, Device(1));
  nvmlPciInfo_t pci;
  ASSERT_EQ(nvmlDeviceGetPciInfo(Device(1), &pci), NVML_SUCCESS);
  EXPECT_STREQ(pci.busId, "00000000:20:00.0");
  EXPECT_STREQ(pci.busIdLegacy, "0000:20:00.0");
  for (const char* text : {"00000000:20:00.0", "0:20:0", "20:00.0"}) {
    found = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByPciBusId(text, &found), NVML_SUCCESS) << text;
    EXPECT_EQ(found, Device(1));
  }
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId("0:70:0", &found), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex(2, &found), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlDeviceGetIndex(nullptr, &count), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlTest, AnswersFromTheGpuDescription) {
  char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
  ASSERT_EQ(nvmlDeviceGetName(Device(0), name, sizeof name), NVML_SUCCESS);
  EXPECT_STREQ(name, "Fake GPU");
  EXPECT_EQ(nvmlDeviceGetName(Device(0), name, 4), NVML_ERROR_INSUFFICIENT_SIZE);
  int major = 0, minor = -1;
  ASSERT_EQ(nvmlDeviceGetCudaComputeCapability(Device(0), &major, &minor),
            NVML_SUCCESS);
  EXPECT_EQ(major, 9);
  EXPECT_EQ(minor, 0);
  unsigned clock = 0;
  ASSERT_EQ(nvmlDeviceGetMaxClockInfo(Device(0), NVML_CLOCK_MEM, &clock), NVML_SUCCESS);
  EXPECT_EQ(clock, 2619u);
  EXPECT_STREQ(nvmlErrorString(NVML_ERROR_NOT_FOUND), "Not Found");
}

TEST_F(NvmlTest, CountsThisProcessesMemoryPerDevice) {
  nvmlMemory_t before, after;
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(Device(0), &before), NVML_SUCCESS);
  NewMemory<char>(64 << 20);
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(Device(0), &after), NVML_SUCCESS);
  EXPECT_EQ(after.used - before.used, 64ull << 20);
  EXPECT_EQ(after.total, after.used + after.free);
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(Device(1), &after), NVML_SUCCESS);
  EXPECT_EQ(after.used, 0u) << "no context there, and none was made";
  EXPECT_FALSE(TheGpu().ContextIsActive(1));
  EXPECT_EQ(TheGpu().CurrentDevice(), 0);
  nvmlMemory_v2_t second = {};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(Device(0), &second),
            NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

TEST_F(NvmlTest, HasTheLinksOfTheDescription) {
  nvmlEnableState_t active = NVML_FEATURE_DISABLED;
  EXPECT_EQ(nvmlDeviceGetNvLinkState(Device(0), 17, &active), NVML_SUCCESS);
  EXPECT_EQ(active, NVML_FEATURE_ENABLED);
  // One more than the device has; some headers know no device with so many.
  EXPECT_EQ(nvmlDeviceGetNvLinkState(Device(0), 18, &active),
            18 < NVML_NVLINK_MAX_LINKS ? NVML_ERROR_NOT_SUPPORTED
                                       : NVML_ERROR_INVALID_ARGUMENT);
  nvmlIntNvLinkDeviceType_t type;
  EXPECT_EQ(nvmlDeviceGetNvLinkRemoteDeviceType(Device(0), 0, &type), NVML_SUCCESS);
  EXPECT_EQ(type, NVML_NVLINK_DEVICE_TYPE_SWITCH);
  nvmlGpuP2PStatus_t status;
  EXPECT_EQ(
      nvmlDeviceGetP2PStatus(Device(0), Device(1), NVML_P2P_CAPS_INDEX_NVLINK, &status),
      NVML_SUCCESS);
  EXPECT_EQ(status, NVML_P2P_STATUS_OK);
}

}  // namespace
}  // namespace vrank::gpu
