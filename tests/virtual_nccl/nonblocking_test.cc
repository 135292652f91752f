// What inits and splits that do not block write into the program's memory, and when.

#include <stdlib.h>

#include <string>

#include <gtest/gtest.h>

#include "tests/virtual_nccl/creation_fixture.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/release.h"

namespace vrank::nccl {
namespace {

class NonblockingTest : public CreationTest {
 protected:
  NonblockingTest() { config_.blocking = 0; }

  ncclResult_t InitWithoutWaiting(ncclComm_t* out) {
    const ncclUniqueId id = library.NewUniqueId(nullptr);
    return InitRank(library, group,
                    {.function = "ncclCommInitRankConfig",
                     .out = out,
                     .ranks = 4,
                     .ids = &id,
                     .config = &config_});
  }
  ncclResult_t Health(ncclComm_t communicator) {
    ncclResult_t health = ncclInternalError;
    EXPECT_EQ(CommunicatorHealth(library, communicator, &health), ncclSuccess);
    return health;
  }

  // What a variable holds that the program has put to another use.
  const ncclComm_t kReused = reinterpret_cast<ncclComm_t>(0x1234);
  ncclConfig_t config_ = NCCL_CONFIG_INITIALIZER;
};

TEST_F(NonblockingTest, WritesTheHandleDuringTheCallAlone) {
  for (const bool grouped : {false, true}) {
    ncclComm_t variable = nullptr;
    if (grouped)
      group.Start();
    EXPECT_EQ(InitWithoutWaiting(&variable), grouped ? ncclSuccess : ncclInProgress);
    const ncclComm_t made = std::exchange(variable, kReused);
    if (grouped) {
      EXPECT_EQ(group.End(library), ncclInProgress);
    }
    EXPECT_EQ(Health(made), ncclSuccess);
    EXPECT_EQ(variable, kReused);
    EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, made)), ncclSuccess);
  }
}

TEST_F(NonblockingTest, WritesTheHandlesOfAllDevicesDuringTheCallAlone) {
  gpu.devices = 2;
  ASSERT_EQ(setenv("NCCL_COMM_BLOCKING", "0", 1), 0);
  ncclComm_t variables[2] = {};
  EXPECT_EQ(InitAll(library, group, variables, 2, nullptr), ncclInProgress);
  unsetenv("NCCL_COMM_BLOCKING");
  for (ncclComm_t& variable : variables) {
    const ncclComm_t made = std::exchange(variable, kReused);
    EXPECT_EQ(Health(made), ncclSuccess);
    EXPECT_EQ(variable, kReused);
  }
}

TEST_F(NonblockingTest, KeepsTheHandleOfAnInitThatFails) {
  gpu.free_bytes = 10;
  ncclComm_t variable = nullptr;
  EXPECT_EQ(InitWithoutWaiting(&variable), ncclInProgress);
  const ncclComm_t made = std::exchange(variable, kReused);
  for (int poll = 0; poll < 2; ++poll)
    EXPECT_EQ(Health(made), ncclUnhandledCudaError);
  EXPECT_EQ(variable, kReused);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, made)), ncclUnhandledCudaError);
  EXPECT_NE(std::string(LastError()).find("its initialization has failed"),
            std::string::npos);
  EXPECT_EQ(Destroy(library, made), ncclUnhandledCudaError);
  EXPECT_EQ(Abort(library, made), ncclSuccess);
  EXPECT_EQ(Abort(library, made), ncclInvalidArgument);
  // The emulator has heard of its end once.
  EXPECT_EQ(Records<protocol::CommRelease>(Kind::kCommRelease).size(), 1u);
}

TEST_F(NonblockingTest, KeepsTheHandleOfAGroupThatFails) {
  ncclComm_t variable = nullptr, other = kReused;
  group.Start();
  EXPECT_EQ(InitWithoutWaiting(&variable), ncclSuccess);
  EXPECT_EQ(Init(&other, 2, 2, library.NewUniqueId(nullptr)), ncclInvalidArgument);
  EXPECT_EQ(other, nullptr);
  const ncclComm_t made = std::exchange(variable, kReused);
  EXPECT_EQ(group.End(library), ncclInvalidArgument);
  EXPECT_EQ(variable, kReused);
  EXPECT_EQ(Health(made), ncclInvalidArgument);
  EXPECT_EQ(Abort(library, made), ncclSuccess);
}

// A child's handle comes when the split has ended, so that the variable has to last
// until then; of one that fails there is none.
TEST_F(NonblockingTest, LeavesTheVariableOfAFailedSplitAlone) {
  ncclComm_t parent = nullptr, child = nullptr;
  EXPECT_EQ(InitWithoutWaiting(&parent), ncclInProgress);
  EXPECT_EQ(Health(parent), ncclSuccess);
  channel.on_collect = [](const FakeChannel::Written&) {
    Answer answer;
    answer.value = uint64_t{2} << 32;
    return answer;
  };
  gpu.free_bytes = 10;
  EXPECT_EQ(Split(library, group, parent, 0, 0, &child, nullptr), ncclSuccess);
  EXPECT_EQ(std::exchange(child, kReused), nullptr);
  for (int poll = 0; poll < 2; ++poll)
    EXPECT_EQ(Health(parent), ncclUnhandledCudaError);
  EXPECT_EQ(child, kReused);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, parent)), ncclUnhandledCudaError);
  EXPECT_NE(
      std::string(LastError()).find("a call of it, a split or a shrink has failed"),
      std::string::npos);
  EXPECT_EQ(Abort(library, parent), ncclSuccess);
}

}  // namespace
}  // namespace vrank::nccl
