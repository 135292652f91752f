// What libnccl tells a tracer, and when. The program itself is the tracer here: libnccl
// finds it by name.

#include "base/guest/nccl_trace.h"

#include <nccl.h>

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "base/guest/export.h"
#include "tests/virtual_nccl/nccl_fixture.h"
#include "virtual_nccl/core/release.h"

namespace vrank::nccl {
namespace {

using ::testing::ElementsAre;

class Listener final : public NcclTrace {
 public:
  void BeginCollective(const protocol::Collective& call, bool captured) override {
    Say("collective of " + std::to_string(call.count) + " on " +
        std::to_string(call.communicator) + (captured ? ", captured" : ""));
  }
  void BeginTransfers(const protocol::PointToPoint& group,
                      const protocol::Transfer* transfers, bool captured) override {
    Say(std::to_string(group.count) + " transfers, first with " +
        std::to_string(transfers[0].peer) + (captured ? ", captured" : ""));
  }
  void EndOperation() override { Say("end"); }
  void BeginHostCall() override { Say("host call"); }
  void EndInit(const protocol::CommInit& call, const char* name) override {
    Say("init of " + std::to_string(call.ranks) + " '" + name + "'");
  }
  void EndSplit(const protocol::CommSplit& call, const char*, uint32_t size,
                uint32_t index) override {
    Say("split " + std::to_string(call.parent) + " into " + std::to_string(size) +
        ", at " + std::to_string(index));
  }
  void EndRelease(const protocol::CommRelease& call) override {
    Say("release " + std::to_string(static_cast<int>(call.release)));
  }
  void Reserve(uint32_t communicator, int64_t bytes) override {
    Say("reserve " + std::to_string(bytes) + " for " + std::to_string(communicator));
  }

  std::vector<std::string> said;

 private:
  void Say(std::string what) { said.push_back(std::move(what)); }
};

Listener& TheListener() {
  static Listener listener;
  return listener;
}

class NcclTraceTest : public NcclTest {
 protected:
  NcclTraceTest() { TheListener().said.clear(); }
  std::vector<std::string> Said() { return std::exchange(TheListener().said, {}); }
};

TEST_F(NcclTraceTest, TellsOfTheLifeOfACommunicator) {
  channel.mutable_settings().communicator_bytes = 3 << 20;
  ncclComm_t communicator = MakeCommunicator(4, 1);
  EXPECT_THAT(Said(),
              ElementsAre("host call", "init of 4 ''", "reserve 4194304 for 1"));
  ASSERT_EQ(Finalize(library, communicator), ncclSuccess);
  ASSERT_EQ(Destroy(library, communicator), ncclSuccess);
  EXPECT_THAT(Said(), ElementsAre("host call", "release 0", "host call", "release 1",
                                  "reserve -4194304 for 1"));
}

TEST_F(NcclTraceTest, TellsOfOperationsAroundTheirLaunch) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  Said();
  ASSERT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator, 12)), ncclSuccess);
  EXPECT_THAT(Said(), ElementsAre("collective of 12 on 1", "end"));
  group.Start();
  ASSERT_EQ(Enqueue(Transfer(Request::kSend, communicator, 2)), ncclSuccess);
  ASSERT_EQ(Enqueue(Transfer(Request::kReceive, communicator, 0)), ncclSuccess);
  EXPECT_TRUE(Said().empty());
  ASSERT_EQ(group.End(library), ncclSuccess);
  EXPECT_THAT(Said(), ElementsAre("2 transfers, first with 2", "end"));
}

// What a graph does is told when it is captured; launches are the CUDA graph's
// business.
TEST_F(NcclTraceTest, TellsOfCapturedOperationsOnce) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  Said();
  gpu.captures = {{3, 1}};
  ASSERT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator, 12)), ncclSuccess);
  EXPECT_THAT(Said(), ElementsAre("collective of 12 on 1, captured", "end"));
  group.Start();
  ASSERT_EQ(Enqueue(Transfer(Request::kSend, communicator, 2)), ncclSuccess);
  ASSERT_EQ(Enqueue(Transfer(Request::kReceive, communicator, 0)), ncclSuccess);
  ASSERT_EQ(group.End(library), ncclSuccess);
  EXPECT_THAT(Said(), ElementsAre("2 transfers, first with 2, captured", "end"));
  ASSERT_EQ(gpu.captured.size(), 2u);
  for (auto& [lane, work] : gpu.captured)
    work->Launch({0, 9}, protocol::kInGraph);
  EXPECT_TRUE(Said().empty());
}

}  // namespace
}  // namespace vrank::nccl

extern "C" VRANK_EXPORT vrank::NcclTrace* vrank_nccl_trace(uint32_t abi) {
  return abi == vrank::NcclTrace::kAbi ? &vrank::nccl::TheListener() : nullptr;
}
