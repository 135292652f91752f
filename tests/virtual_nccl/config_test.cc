#include "virtual_nccl/core/config.h"

#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

namespace vrank::nccl {
namespace {

ncclResult_t Read(const ncclConfig_t& given, Config* config) {
  return ReadConfig(&given, "ncclCommInitRankConfig", config);
}

TEST(ConfigTest, TakesTheNameAndTheDefaults) {
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  Config config;
  EXPECT_EQ(Read(given, &config), ncclSuccess);
  EXPECT_EQ(config.name, "");
  given.commName = "tensor parallel";
  given.blocking = 0;
  EXPECT_EQ(Read(given, &config), ncclSuccess);
  EXPECT_EQ(config.name, "tensor parallel");
}

TEST(ConfigTest, RefusesANetworkThatNcclDoesNotHave) {
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  Config config;
  given.netName = "nonesuch";
  EXPECT_EQ(Read(given, &config), ncclInvalidUsage);
  for (const char* known : {"IB", "socket"}) {
    given.netName = known;
    EXPECT_EQ(Read(given, &config), ncclSuccess) << known;
  }
  // A plugin may have it, or the variable wins.
  given.netName = "nonesuch";
  for (const char* variable : {"NCCL_NET_PLUGIN", "NCCL_NET"}) {
    setenv(variable, "Socket", 1);
    EXPECT_EQ(Read(given, &config), ncclSuccess) << variable;
    unsetenv(variable);
  }
}

TEST(ConfigTest, RefusesWhatWasNotInitialized) {
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  given.magic = 1;
  Config config;
  EXPECT_EQ(Read(given, &config), ncclInvalidArgument);
  given = NCCL_CONFIG_INITIALIZER;
  given.size = sizeof(size_t);  // too short to hold a magic number
  EXPECT_EQ(Read(given, &config), ncclInvalidArgument);
}

TEST(ConfigTest, RefusesValuesAsNcclDoes) {
  struct Row {
    int ncclConfig_t::*field;
    int value;
    bool allowed;
  };
  const Row rows[] = {
      {&ncclConfig_t::blocking, 0, true},
      {&ncclConfig_t::blocking, 2, false},
      {&ncclConfig_t::cgaClusterSize, 0, true},
      {&ncclConfig_t::cgaClusterSize, -1, false},
      {&ncclConfig_t::minCTAs, 1, false},  // above an undefined maxCTAs
      {&ncclConfig_t::maxCTAs, 0, false},
      {&ncclConfig_t::maxCTAs, 32, true},
      {&ncclConfig_t::splitShare, 1, true},
      {&ncclConfig_t::splitShare, -1, false},
      {&ncclConfig_t::collnetEnable, 2, false},
      {&ncclConfig_t::CTAPolicy, 2, true},
      {&ncclConfig_t::CTAPolicy, 3, false},
      {&ncclConfig_t::shrinkShare, 2, false},
      {&ncclConfig_t::nvlsCTAs, 0, false},
      {&ncclConfig_t::nvlsCTAs, 16, true},
      {&ncclConfig_t::nChannelsPerNetPeer, 64, true},
      {&ncclConfig_t::nChannelsPerNetPeer, 65, false},
      {&ncclConfig_t::nvlinkCentricSched, 2, false},
      {&ncclConfig_t::trafficClass, -7, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(&row - rows);
    ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
    given.*row.field = row.value;
    Config config;
    EXPECT_EQ(Read(given, &config), row.allowed ? ncclSuccess : ncclInvalidArgument);
  }
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  Config config;
  given.minCTAs = 4;
  given.maxCTAs = 2;
  EXPECT_EQ(Read(given, &config), ncclInvalidArgument);
  given.maxCTAs = 4;
  EXPECT_EQ(Read(given, &config), ncclSuccess);
}

TEST(ConfigTest, ReadsAShorterStructureOfAnOlderProgram) {
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  given.size = offsetof(ncclConfig_t, splitShare);  // as of 2.17
  given.version = NCCL_VERSION(2, 17, 1);
  // What follows is other memory of the program.
  memset(&given.splitShare, 0x5a, sizeof given - offsetof(ncclConfig_t, splitShare));
  Config config;
  EXPECT_EQ(Read(given, &config), ncclSuccess);
  EXPECT_EQ(config.name, "");
}

TEST(ConfigTest, ForgetsFieldsThatTheVersionDidNotHave) {
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  given.version = NCCL_VERSION(2, 26, 0);
  given.CTAPolicy = given.nvlsCTAs = given.nChannelsPerNetPeer = -5;
  Config config;
  EXPECT_EQ(Read(given, &config), ncclSuccess);
  given.version = NCCL_VERSION(2, 28, 0);
  EXPECT_EQ(Read(given, &config), ncclInvalidArgument);
}

TEST(ConfigTest, IgnoresTheTailOfANewerProgram) {
  struct {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int newer[4] = {-1, -1, -1, -1};
  } given;
  given.known.size = sizeof given;
  given.known.version = NCCL_VERSION(2, 30, 4);
  Config config;
  EXPECT_EQ(Read(given.known, &config), ncclSuccess);
}

}  // namespace
}  // namespace vrank::nccl
